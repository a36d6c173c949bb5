package compare

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"time"
)

// A Result is the measurement of a row.
type Result struct {
	Row
	// Figures are the figures of each round, by contender; a contender that failed
	// has none.
	Figures map[string][][]float64
	// Failed are the errors, by contender.
	Failed map[string]error
	// Others is the largest load by unrelated programs during a round that counts.
	Others float64
	Took   time.Duration
}

const (
	// defaultExtraTime is the ExtraTime of a row that has none.
	defaultExtraTime = 10 * time.Second
	// maxLoad is the acceptable load by other programs during a round. A round with
	// more is repeated, and counts anyway after maxTries, or when the row has taken
	// too long.
	maxLoad, maxTries = 0.10, 3
	rowLimit          = 25 * time.Second
	// worthlessLoad is the load that invalidates a result.
	worthlessLoad = 0.25
)

// Run does the given number of rounds with every contender. Each round begins with
// another contender, so that none always follows the same one.
func Run(ctx context.Context, part Part, row Row, rounds int) Result {
	return run(ctx, row, rounds, &otherLoad{pids: part.PIDs})
}

// A loadMeter reports the load by other programs since start.
type loadMeter interface {
	start()
	share() float64
}

func run(ctx context.Context, row Row, rounds int, around loadMeter) Result {
	begun := time.Now()
	late := begun.Add(rowLimit)
	res := Result{Row: row, Figures: map[string][][]float64{}, Failed: map[string]error{}}
	turns := map[string]Rounds{}
	for _, c := range row.Who {
		turn, err := row.Begin(ctx, c)
		if err != nil {
			res.Failed[c.Name] = fmt.Errorf("open: %w", err)
			continue
		}
		turns[c.Name] = turn
		// The first round of a client sets up its connections and does not count.
		if _, err := round(ctx, turn, row.Length/10, cmp.Or(row.ExtraTime, defaultExtraTime)); err != nil {
			res.Failed[c.Name] = err
		}
	}
	for i := range rounds {
		for j := range row.Who {
			name := row.Who[(i+j)%len(row.Who)].Name
			if res.Failed[name] == nil && ctx.Err() == nil {
				res.quietRound(ctx, around, late, name, turns[name])
			}
		}
	}
	for name, turn := range turns {
		if err := turn.Close(); err != nil {
			res.Failed[name] = errors.Join(res.Failed[name], fmt.Errorf("close: %w", err))
		}
	}
	for name := range res.Failed {
		delete(res.Figures, name)
	}
	res.Took = time.Since(begun)
	return res
}

// Disturbed reports whether other programs used so much of the machine that the
// figures are worthless.
func (r *Result) Disturbed() bool { return r.Others > worthlessLoad }

// quietRound repeats a round until the machine was quiet enough, or takes the least
// disturbed of a few.
func (r *Result) quietRound(ctx context.Context, around loadMeter, late time.Time, name string, turn Rounds) {
	var best []float64
	least := math.Inf(1)
	for try := 0; try == 0 || try < maxTries && least > maxLoad && time.Now().Before(late); try++ {
		around.start()
		figures, err := round(ctx, turn, r.Length, cmp.Or(r.ExtraTime, defaultExtraTime))
		if err != nil {
			r.Failed[name] = err
			return
		}
		if share := around.share(); share < least {
			best, least = figures, share
		}
	}
	r.Figures[name] = append(r.Figures[name], best)
	r.Others = max(r.Others, least)
}

func round(ctx context.Context, turn Rounds, length, patience time.Duration) ([]float64, error) {
	runtime.GC() // so that no contender pays for the garbage of another
	ctx, cancel := context.WithTimeout(ctx, length+patience)
	defer cancel()
	return turn.Round(ctx, length)
}

// Median returns the median of a contender's figures for a unit.
func (r *Result) Median(who string, unit int) (float64, bool) {
	return median(r.column(who, unit))
}

// Ratio returns the median, over the rounds, of who's figure divided by the
// other's.
func (r *Result) Ratio(who, than string, unit int) (float64, bool) {
	mine, theirs := r.column(who, unit), r.column(than, unit)
	var ratios []float64
	for i := range min(len(mine), len(theirs)) {
		if theirs[i] != 0 {
			ratios = append(ratios, mine[i]/theirs[i])
		}
	}
	return median(ratios)
}

func (r *Result) column(who string, unit int) (figures []float64) {
	for _, round := range r.Figures[who] {
		figures = append(figures, round[unit])
	}
	return figures
}

func median(figures []float64) (float64, bool) {
	if len(figures) == 0 {
		return 0, false
	}
	sorted := slices.Sorted(slices.Values(figures))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle], true
	}
	return (sorted[middle-1] + sorted[middle]) / 2, true
}

// A Verdict says whether a bound was kept.
type Verdict struct {
	Bound
	Unit  Unit
	Found float64
	Known bool // no contender failed
	Kept  bool

	failed bool // the contender with the bound failed
}

// Missed reports whether the contender missed its bound. A contender that failed
// has missed it; if the other one failed, there is nothing to compare with.
func (v Verdict) Missed() bool { return v.failed || v.Known && !v.Kept }

// Verdicts checks the row's bounds whose contenders took part.
func (r *Result) Verdicts() (verdicts []Verdict) {
	for _, b := range r.Bounds {
		if !r.has(b.Who) || b.Than != "" && !r.has(b.Than) {
			continue
		}
		v := Verdict{Bound: b, Unit: r.Units[b.Unit], failed: r.Failed[b.Who] != nil}
		asked := b.Factor
		switch {
		case b.Than == "":
			v.Found, v.Known = r.Median(b.Who, b.Unit)
		case b.Plus != 0:
			one, known := r.Median(b.Who, b.Unit)
			other, too := r.Median(b.Than, b.Unit)
			v.Found, v.Known, asked = one-other, known && too, b.Plus
		default:
			v.Found, v.Known = r.Ratio(b.Who, b.Than, b.Unit)
		}
		v.Kept = v.Known && (v.Found >= asked || b.AtMost) && (v.Found <= asked || !b.AtMost)
		verdicts = append(verdicts, v)
	}
	return verdicts
}

func (r *Result) has(who string) bool {
	return slices.ContainsFunc(r.Who, func(c Contender) bool { return c.Name == who })
}
