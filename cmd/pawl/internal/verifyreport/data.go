package verifyreport

import (
	"github.com/pawl-go/pawl/internal/history"
)

// bins is how many bars the overview of the run has.
const bins = 600

// A sceneData is what the script gets. Times are nanoseconds since the page's zero.
type sceneData struct {
	From       int64           `json:"from"`
	To         int64           `json:"to"`
	Names      []string        `json:"names"`
	Errors     []string        `json:"errors"` // the first is empty
	Attempts   columns         `json:"attempts"`
	Faults     []faultData     `json:"faults"`
	Gaps       [][2]int64      `json:"gaps"`
	Grants     []int           `json:"grants"` // of all attempts, by time
	Violations []violationData `json:"violations"`
}

// columns are the attempts, one slice for each field: they are smaller than objects, and
// read faster. Times but Called are counted from Called; -1 is none.
type columns struct {
	Client    []int    `json:"client"`
	Lane      []int    `json:"lane"`
	Name      []int    `json:"name"`
	Need      []int    `json:"need"`
	Limit     []int    `json:"limit"`
	Try       []int    `json:"try"`
	Result    []int    `json:"result"`
	End       []int    `json:"end"`
	Err       []int    `json:"err"`
	Writes    []int    `json:"writes"`
	Refused   []int    `json:"refused"`
	Token     []string `json:"token"` // strings: they exceed what a number of JavaScript can be
	Called    []int64  `json:"called"`
	Queued    []int64  `json:"queued"`
	Cancelled []int64  `json:"cancelled"`
	Waited    []int64  `json:"waited"`
	Alive     []int64  `json:"alive"`
	Told      []int64  `json:"told"`
	Over      []int64  `json:"over"`
}

type faultData struct {
	Client int    `json:"client"`
	Kind   string `json:"kind"`
	From   int64  `json:"from"`
	To     int64  `json:"to"`
}

type violationData struct {
	Rule     string `json:"rule"`
	Name     int    `json:"name"` // -1: without a timeline
	At       int64  `json:"at"`
	Attempts []int  `json:"attempts"` // of those in the data
}

// data returns what the script gets. Empty lists are lists there, not null, but for the
// columns of a run without attempts.
func (s *scene) data() sceneData {
	d := sceneData{From: s.time(s.first), To: s.time(s.last), Names: []string{}, Faults: []faultData{}, Gaps: [][2]int64{}, Grants: s.grants(), Violations: []violationData{}}
	for _, name := range s.names {
		d.Names = append(d.Names, shownName(name))
	}
	errs := map[string]int{"": 0}
	d.Errors = []string{""}
	at := make(map[int]int, len(s.kept)) // where an attempt of the history is in the data
	for i, index := range s.kept {
		a := &s.h.Attempts[index]
		if _, ok := errs[a.Err]; !ok {
			errs[a.Err] = len(d.Errors)
			d.Errors = append(d.Errors, text(a.Err))
		}
		at[index] = i
		d.Attempts.add(s, a, errs[a.Err])
	}
	for _, f := range s.h.Faults {
		to := f.To
		if to == 0 || to > s.last {
			to = s.last
		}
		d.Faults = append(d.Faults, faultData{f.Client, text(f.Kind), s.time(f.From), s.time(to)})
	}
	for _, g := range s.gaps {
		d.Gaps = append(d.Gaps, [2]int64{s.time(g.from), s.time(g.to)})
	}
	for _, v := range s.violations {
		one := violationData{Rule: text(string(v.Rule)), Name: -1, At: s.time(min(max(v.At, s.first), s.last)), Attempts: []int{}}
		if n, ok := s.nameIndex[v.Name]; ok {
			one.Name = n
		}
		for _, index := range v.Attempts {
			if i, ok := at[index]; ok {
				one.Attempts = append(one.Attempts, i)
			}
		}
		d.Violations = append(d.Violations, one)
	}
	return d
}

func (c *columns) add(s *scene, a *history.Attempt, err int) {
	since := func(t history.Time) int64 {
		if t == 0 || t == history.Forever {
			return -1
		}
		return max(0, int64(t-a.Called))
	}
	refused := 0
	for _, w := range a.Writes {
		if w.Seq != 0 && !w.Accepted {
			refused++
		}
	}
	try := 0
	if a.Try {
		try = 1
	}
	c.Client = append(c.Client, a.Client)
	c.Lane = append(c.Lane, a.Lane)
	c.Name = append(c.Name, s.nameIndex[a.Name])
	c.Need = append(c.Need, a.Need)
	c.Limit = append(c.Limit, a.Limit)
	c.Try = append(c.Try, try)
	c.Result = append(c.Result, int(a.Result))
	c.End = append(c.End, int(a.End))
	c.Err = append(c.Err, err)
	c.Writes = append(c.Writes, len(a.Writes))
	c.Refused = append(c.Refused, refused)
	c.Token = append(c.Token, token(a))
	c.Called = append(c.Called, s.time(a.Called))
	c.Queued = append(c.Queued, since(a.Queued))
	c.Cancelled = append(c.Cancelled, since(a.Cancelled))
	c.Waited = append(c.Waited, since(s.waited(a)))
	c.Alive = append(c.Alive, since(a.Alive))
	c.Told = append(c.Told, since(a.Told))
	c.Over = append(c.Over, since(over(a)))
}

func (s *scene) time(t history.Time) int64 { return int64(t - s.zero) }

// grants counts the grants of the whole run, in equal parts of its time.
func (s *scene) grants() []int {
	n := make([]int, bins)
	width := float64(s.last - s.first)
	for i := range s.h.Attempts {
		if t := granted(&s.h.Attempts[i]); t != 0 {
			n[min(bins-1, int(bins*(float64(t-s.first)/width)))]++
		}
	}
	return n
}
