package contest

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

// A Result is what came of a row.
type Result struct {
	Row
	// Figures has, by contender, the figures of each round; one who failed has none.
	Figures map[string][][]float64
	// Failed has, by contender, what went wrong.
	Failed map[string]error
	// Others is the largest part of the machine that programs outside the contest
	// used during a round that counts.
	Others float64
	Took   time.Duration
}

const (
	// patience is that of a row that names none.
	patience = 10 * time.Second
	// quiet is what others may use of the machine during a round. A round with more
	// is done again, and counts all the same after so many tries, or when the row has
	// taken its time.
	quiet, tries = 0.10, 3
	rowLimit     = 25 * time.Second
	// loud is what makes a result worthless.
	loud = 0.25
)

// Run lets everybody do the given number of rounds. Each round begins with another
// contender, so that nobody always follows the same one.
func Run(ctx context.Context, part Part, row Row, rounds int) Result {
	return run(ctx, row, rounds, &others{pids: part.PIDs})
}

// A neighbourhood tells how much others have used of the machine since start.
type neighbourhood interface {
	start()
	share() float64
}

func run(ctx context.Context, row Row, rounds int, around neighbourhood) Result {
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
		// The first round of a client pays for its connections, and counts for nothing.
		if _, err := round(ctx, turn, row.Length/10, cmp.Or(row.Patience, patience)); err != nil {
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

// Disturbed reports whether others used so much of the machine that the figures say
// little.
func (r *Result) Disturbed() bool { return r.Others > loud }

// quietRound does a round in which the machine was not much used by others, or the
// least disturbed of a few.
func (r *Result) quietRound(ctx context.Context, around neighbourhood, late time.Time, name string, turn Rounds) {
	var best []float64
	least := math.Inf(1)
	for try := 0; try == 0 || try < tries && least > quiet && time.Now().Before(late); try++ {
		around.start()
		figures, err := round(ctx, turn, r.Length, cmp.Or(r.Patience, patience))
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
	runtime.GC() // nobody pays for what another has left behind
	ctx, cancel := context.WithTimeout(ctx, length+patience)
	defer cancel()
	return turn.Round(ctx, length)
}

// Median returns the median of a contender's figures for a unit.
func (r *Result) Median(who string, unit int) (float64, bool) {
	return median(r.column(who, unit))
}

// Ratio returns the median, over the rounds, of who's figure by that of the other.
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

// A Verdict says how a bound was kept.
type Verdict struct {
	Bound
	Unit  Unit
	Found float64
	Known bool // nobody failed
	Kept  bool

	failed bool // who is asked
}

// Missed reports whether the bound was not kept by who is asked. One who fails has
// missed all; where the other fails there is nothing to compare with.
func (v Verdict) Missed() bool { return v.failed || v.Known && !v.Kept }

// Verdicts compares the result with those of the row's bounds whose contenders took
// part.
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
