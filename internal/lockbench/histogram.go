package lockbench

import (
	"math"
	"time"
)

// perOctave is into how many steps a doubling is divided: a time that is read from
// a Histogram is off by 2 % at most, and the memory is the same for ten times or for
// ten million.
const perOctave = 32

// A Histogram counts times. The zero value is empty; it is not safe for concurrent
// use.
type Histogram struct {
	counts [40 * perOctave]int // up to 18 minutes
	n      int
	sum    time.Duration
	max    time.Duration
}

// Add counts one time.
func (h *Histogram) Add(d time.Duration) {
	h.counts[step(d)]++
	h.n++
	h.sum += d
	h.max = max(h.max, d)
}

// Merge adds the counts of another.
func (h *Histogram) Merge(o *Histogram) {
	for i, n := range o.counts {
		h.counts[i] += n
	}
	h.n += o.n
	h.sum += o.sum
	h.max = max(h.max, o.max)
}

// N returns how many times were counted.
func (h *Histogram) N() int { return h.n }

// Mean returns the mean of the times; 0 without any.
func (h *Histogram) Mean() time.Duration { return h.sum / time.Duration(max(h.n, 1)) }

// Max returns the longest time, exactly.
func (h *Histogram) Max() time.Duration { return h.max }

// Quantile returns the time that the part q of all does not exceed; 0 without any.
func (h *Histogram) Quantile(q float64) time.Duration {
	rank := int(math.Ceil(q * float64(h.n)))
	for i, n := range h.counts {
		if rank -= n; n > 0 && rank <= 0 {
			return min(edge(i+1), h.max)
		}
	}
	return h.max
}

// A Bar is how many times lie between two.
type Bar struct {
	From, To time.Duration // To itself is in the next one
	Count    int
}

// Bars divides what was counted into at most the given number of ranges, each as
// many times as long as the one before it: times of locks range over decades. Empty
// ends are left out.
func (h *Histogram) Bars(most int) (bars []Bar) {
	first, last := -1, -1
	for i, n := range h.counts {
		if n > 0 {
			last = i
			if first < 0 {
				first = i
			}
		}
	}
	if first < 0 || most < 1 {
		return nil
	}
	wide := (last - first + most) / most // steps to a bar, rounded up
	for at := first; at <= last; at += wide {
		b := Bar{From: edge(at), To: edge(at + wide)}
		for _, n := range h.counts[at:min(at+wide, len(h.counts))] {
			b.Count += n
		}
		bars = append(bars, b)
	}
	return bars
}

// step is where a time is counted.
func step(d time.Duration) int {
	i := int(math.Log2(float64(max(d, 1))) * perOctave)
	return min(i, len(Histogram{}.counts)-1)
}

// edge is where a step begins.
func edge(i int) time.Duration {
	return time.Duration(math.Round(math.Exp2(float64(i) / perOctave)))
}
