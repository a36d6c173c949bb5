package lockbench

import (
	"math"
	"time"
)

// perOctave is the number of buckets per doubling: a value read from a Histogram is
// off by at most 2 %, and its memory does not depend on the number of values.
const perOctave = 32

// A Histogram counts durations. The zero value is empty. It is not safe for
// concurrent use.
type Histogram struct {
	counts [40 * perOctave]int // up to 18 minutes
	n      int
	sum    time.Duration
	max    time.Duration
}

// Add counts a duration.
func (h *Histogram) Add(d time.Duration) {
	h.counts[step(d)]++
	h.n++
	h.sum += d
	h.max = max(h.max, d)
}

// Merge adds the counts of another histogram.
func (h *Histogram) Merge(o *Histogram) {
	for i, n := range o.counts {
		h.counts[i] += n
	}
	h.n += o.n
	h.sum += o.sum
	h.max = max(h.max, o.max)
}

// N returns the number of durations.
func (h *Histogram) N() int { return h.n }

// Mean returns the mean; 0 if empty.
func (h *Histogram) Mean() time.Duration { return h.sum / time.Duration(max(h.n, 1)) }

// Max returns the exact maximum.
func (h *Histogram) Max() time.Duration { return h.max }

// Quantile returns the duration that the fraction q does not exceed; 0 if empty.
func (h *Histogram) Quantile(q float64) time.Duration {
	rank := int(math.Ceil(q * float64(h.n)))
	for i, n := range h.counts {
		if rank -= n; n > 0 && rank <= 0 {
			return min(edge(i+1), h.max)
		}
	}
	return h.max
}

// A Bar is the number of durations in a range.
type Bar struct {
	From, To time.Duration // To is exclusive
	Count    int
}

// Bars divides the durations into at most most ranges of exponentially growing
// width, because lock times span decades. Empty ranges at both ends are left out.
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
	wide := (last - first + most) / most // buckets per bar, rounded up
	for at := first; at <= last; at += wide {
		b := Bar{From: edge(at), To: edge(at + wide)}
		for _, n := range h.counts[at:min(at+wide, len(h.counts))] {
			b.Count += n
		}
		bars = append(bars, b)
	}
	return bars
}

// step returns the bucket of a duration.
func step(d time.Duration) int {
	i := int(math.Log2(float64(max(d, 1))) * perOctave)
	return min(i, len(Histogram{}.counts)-1)
}

// edge returns the lower bound of a bucket.
func edge(i int) time.Duration {
	return time.Duration(math.Round(math.Exp2(float64(i) / perOctave)))
}
