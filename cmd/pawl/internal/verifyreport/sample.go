package verifyreport

import (
	"cmp"
	"slices"

	"github.com/pawl-go/pawl/internal/history"
)

// How much of a long run is kept.
const (
	maxAttempts = 50_000 // about; those that reach into what is kept come on top
	around      = 2_000  // attempts before a violation, and after it
	maxAround   = 8      // violations
	slots       = 256    // parts of the run that are kept or left out as a whole
	maxLosses   = 5_000
)

// sample chooses the attempts that are shown, in the order of their calls, and returns the
// times between them in which others are missing. Parts of the run are kept whole, and so
// is what reaches into them: an attempt missing in the midst of others would show a lock
// as free that was held.
func (s *scene) sample() (kept []int, gaps []span) {
	var order []int
	for i := range s.h.Attempts {
		if _, ok := s.nameIndex[s.h.Attempts[i].Name]; ok {
			order = append(order, i)
		}
	}
	called := func(at int) history.Time { return s.h.Attempts[order[at]].Called }
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(s.h.Attempts[a].Called, s.h.Attempts[b].Called) })
	if len(order) <= maxAttempts {
		return order, nil
	}
	keep := s.keepParts(order)
	next := history.Forever // when the next part begins that is kept
	end := history.Forever  // of the gap that is being read, from its end
	losses := 0
	chosen := make([]bool, len(order))
	wanted := s.inViolations()
	for at := len(order) - 1; at >= 0; at-- {
		if keep[at] {
			if at+1 < len(order) && !keep[at+1] {
				gaps = append(gaps, span{called(at + 1), end})
			}
			chosen[at], next = true, called(at)
			continue
		}
		if at+1 == len(order) || keep[at+1] {
			end = min(next, s.last)
		}
		a := &s.h.Attempts[order[at]]
		lost := a.End == history.Lost && losses < maxLosses
		if lost {
			losses++
		}
		chosen[at] = lost || wanted[order[at]] || s.until(a) >= next
	}
	if !keep[0] {
		gaps = append(gaps, span{called(0), end})
	}
	slices.Reverse(gaps)
	for at, yes := range chosen {
		if yes {
			kept = append(kept, order[at])
		}
	}
	return kept, gaps
}

// keepParts returns which positions of order are in parts that are kept: those around the
// first violations, and others at equal distances.
func (s *scene) keepParts(order []int) []bool {
	keep := make([]bool, len(order))
	n := 0
	mark := func(from, to int) {
		for at := max(0, from); at < min(to, len(order)); at++ {
			if !keep[at] {
				keep[at] = true
				n++
			}
		}
	}
	for _, v := range s.violations[:min(maxAround, len(s.violations))] {
		at, _ := slices.BinarySearchFunc(order, v.At, func(i int, t history.Time) int { return cmp.Compare(s.h.Attempts[i].Called, t) })
		mark(at-around, at+around)
	}
	size := (len(order) + slots - 1) / slots
	parts := (maxAttempts - n) / size
	for i := range parts {
		part := i * slots / parts
		mark(part*size, (part+1)*size)
	}
	return keep
}

// inViolations returns the attempts that violations name.
func (s *scene) inViolations() map[int]bool {
	all := map[int]bool{}
	for _, v := range s.violations {
		for _, i := range v.Attempts {
			all[i] = true
		}
	}
	return all
}
