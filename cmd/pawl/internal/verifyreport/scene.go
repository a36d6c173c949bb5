package verifyreport

import (
	"cmp"
	"slices"
	"time"

	"github.com/pawl-go/pawl/internal/history"
)

// maxNames is how many names have a timeline.
const maxNames = 100

// A scene is what the timelines show of a run.
type scene struct {
	h          *history.History
	violations []*history.Violation // as inOrder returns them
	names      []string             // with a timeline, those with violations first
	nameIndex  map[string]int
	cutNames   int // names without a timeline
	zero       history.Time
	first      history.Time
	last       history.Time
	kept       []int  // attempts, in the order of their calls
	gaps       []span // in which attempts are missing
}

// A span is a range of time.
type span struct{ from, to history.Time }

func newScene(r Run) *scene {
	s := &scene{h: r.History, violations: inOrder(r.Report)}
	s.chooseNames()
	s.measure(r.Length)
	s.kept, s.gaps = s.sample()
	return s
}

// chooseNames lists the names: those of violations in their order, then the others.
func (s *scene) chooseNames() {
	s.nameIndex = map[string]int{}
	used := map[string]bool{}
	for i := range s.h.Attempts {
		used[s.h.Attempts[i].Name] = true
	}
	var others []string
	for name := range used {
		others = append(others, name)
	}
	slices.Sort(others)
	var all []string
	for _, v := range s.violations {
		if used[v.Name] {
			all = append(all, v.Name)
		}
	}
	for _, name := range append(all, others...) {
		if _, ok := s.nameIndex[name]; !ok && len(s.names) < maxNames {
			s.nameIndex[name] = len(s.names)
			s.names = append(s.names, name)
		}
	}
	s.cutNames = len(used) - len(s.names)
}

// measure finds the beginning and the end of what is shown. Times are shown as they are if
// the clock began with the run, so that they are those in the texts of violations; else
// they begin at the first call.
func (s *scene) measure(length time.Duration) {
	s.first, s.last = history.Forever, 0
	add := func(times ...history.Time) {
		for _, t := range times {
			if t != 0 && t != history.Forever {
				s.first, s.last = min(s.first, t), max(s.last, t)
			}
		}
	}
	for i := range s.h.Attempts {
		a := &s.h.Attempts[i]
		add(a.Called, a.Queued, a.Returned, a.Alive, a.Told, a.Unlock, a.Unlocked)
	}
	for _, f := range s.h.Faults {
		add(f.From, f.To)
	}
	for _, v := range s.violations {
		add(v.At)
	}
	if s.first == history.Forever {
		s.first = 0
	}
	s.last = max(s.last, s.first+1)
	if s.first > history.Time(length) {
		s.zero = s.first
	}
}

// clock returns a moment; empty for none.
func (s *scene) clock(t history.Time) string {
	switch t {
	case 0:
		return ""
	case history.Forever:
		return "never"
	}
	return (t - s.zero).String()
}

// granted returns when a was granted; 0 if it was not.
func granted(a *history.Attempt) history.Time {
	if a.Result != history.Held {
		return 0
	}
	return a.Returned
}

// over returns until when a hold is drawn; 0 if there was none.
func over(a *history.Attempt) history.Time {
	if a.Result != history.Held {
		return 0
	}
	return max(a.Returned, cmp.Or(a.Unlock, a.Told, a.Alive))
}

// waited returns until when the acquire is drawn: until its return, the kill of its
// process or the end.
func (s *scene) waited(a *history.Attempt) history.Time {
	if a.Returned != 0 {
		return a.Returned
	}
	for _, f := range s.h.Faults {
		if f.Client == a.Client && f.Kind == history.Kill && f.From >= a.Called {
			return f.From
		}
	}
	return s.last
}

// until returns the end of the last thing that is drawn of an attempt.
func (s *scene) until(a *history.Attempt) history.Time { return max(s.waited(a), over(a)) }
