package main

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"text/template"
	"time"
)

//go:embed page.md
var pageText string

// results are what the page is written from.
type results struct {
	Before []result `json:",omitempty"` // of the tree that -before named
	Now    []result
}

// load reads results. A file that is not there has none.
func load(name string) (r results, err error) {
	b, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	if err == nil {
		err = json.Unmarshal(b, &r)
	}
	return r, err
}

func (r *results) has(c cell) bool { return find(r.Now, c) != nil }

// add puts a result in place of the one that is there.
func (r *results) add(of result) {
	if old := find(r.Now, of.cell); old != nil {
		*old = of
		return
	}
	r.Now = append(r.Now, of)
}

func find(all []result, c cell) *result {
	if i := slices.IndexFunc(all, func(r result) bool { return r.cell == c }); i >= 0 {
		return &all[i]
	}
	return nil
}

// longer returns the result of the same store and kind over the shortest link that is
// longer; nil if there is none.
func (r *results) longer(than cell) (next *result) {
	for i := range r.Now {
		is := &r.Now[i]
		if is.Store == than.Store && is.Kind == than.Kind && is.RTT > than.RTT && (next == nil || is.RTT < next.RTT) {
			next = is
		}
	}
	return next
}

// save writes the results, and the page from them.
func (r *results) save(out string) error {
	b, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(out+".json", append(b, '\n'), 0o644); err != nil {
		return err
	}
	text, err := r.page()
	if err != nil {
		return err
	}
	return os.WriteFile(out+".md", text, 0o644)
}

// A row is one store over one link.
type row struct {
	Store, Trip string
	r           *results
	rtt         int
}

// Before and Now return a cell of the table.
func (w row) Before(kind string) string { return w.value(w.r.Before, kind) }
func (w row) Now(kind string) string    { return w.value(w.r.Now, kind) }

func (w row) value(all []result, kind string) string {
	if r := find(all, cell{Store: w.Store, Kind: kind, RTT: w.rtt}); r != nil {
		return r.Borne()
	}
	return ""
}

// rows returns the rows for which some kind that names says has a result.
func (r *results) rows(counted bool) (all []row) {
	for _, s := range stores {
		var trips []int
		for _, x := range append(slices.Clone(r.Before), r.Now...) {
			if x.Store == s.name && names(x.Kind) == counted && !slices.Contains(trips, x.RTT) {
				trips = append(trips, x.RTT)
			}
		}
		slices.Sort(trips)
		for _, ms := range trips {
			trip := fmt.Sprintf("%d ms", ms)
			if ms == noLink {
				trip = "-"
			}
			all = append(all, row{s.name, trip, r, ms})
		}
	}
	return all
}

// limits are the cells of now in which a fault was met.
func (r *results) limits() (all []result) {
	for _, x := range r.Now {
		if x.Why() != "" {
			all = append(all, x)
		}
	}
	return all
}

// time returns how long a cell had at most, or the least and the most of it.
func (r *results) time() string {
	var all []time.Duration
	for _, x := range r.Now {
		if d, err := time.ParseDuration(x.Limit); err == nil && !names(x.Kind) {
			all = append(all, d)
		}
	}
	if len(all) == 0 {
		return ""
	}
	least, most := slices.Min(all), slices.Max(all)
	if least == most {
		return most.String()
	}
	return fmt.Sprintf("%v to %v", least, most)
}

// first returns some result, for what all have in common.
func (r *results) first() result {
	if len(r.Now) > 0 {
		return r.Now[len(r.Now)-1]
	}
	return result{}
}

func (r *results) page() ([]byte, error) {
	tmpl, err := template.New("page").Funcs(template.FuncMap{
		"text": func(s string) string { return strings.Join(strings.Fields(strings.ReplaceAll(s, "|", `\|`)), " ") },
	}).Parse(pageText)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	err = tmpl.Execute(&b, struct {
		First         result
		Time          string
		Borne, Names  []row
		Limits        []result
		Kinds, Counts []string
		LeastServed   int
	}{r.first(), r.time(), r.rows(false), r.rows(true), r.limits(), []string{held, waiting, clients, arriving}, []string{once, records}, leastServed})
	return b.Bytes(), err
}

// Borne says what a cell came to in a table.
func (r result) Borne() string {
	if names(r.Kind) {
		if len(r.Steps) == 0 {
			return ""
		}
		s := r.Steps[0]
		if s.Fault == unsupported {
			return s.Fault
		}
		clean := "not swept"
		if s.Swept > 0 {
			clean = fmt.Sprintf("%.0f s", s.Swept)
		}
		return fmt.Sprintf("%s at %s/s: %s, %s", thousands(s.N), thousands(int(s.Pace)), thousands(s.Left), clean)
	}
	switch {
	case r.Bears == 0:
		return "< " + thousands(r.Below)
	case r.Below == 0:
		return "≥ " + thousands(r.Bears) + r.handoff()
	case r.Open:
		return thousands(r.Bears) + " to " + thousands(r.Below) + r.handoff()
	}
	return thousands(r.Bears) + r.handoff()
}

// handoff says how long one took on average at the number that was borne.
func (r result) handoff() string {
	for _, s := range r.Steps {
		if s.N == r.Bears && s.Pace > 0 {
			return fmt.Sprintf(", %.0f ms", 1000/s.Pace)
		}
	}
	return ""
}

// Why says what happened at the lowest number that was not borne.
func (r result) Why() string {
	for _, s := range r.Steps {
		if s.Fault != "" && s.Fault != unsupported && (s.N == r.Below || names(r.Kind)) {
			why := fmt.Sprintf("%s: %s", thousands(s.N), s.Fault)
			if ttl, _ := time.ParseDuration(r.TTL); s.Stalled > ttl.Seconds()/6 {
				why += fmt.Sprintf("; this program stood still for %.1f s", s.Stalled)
			}
			return why
		}
	}
	return ""
}

// thousands returns n with spaces between groups of three digits.
func thousands(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + " " + s[i:]
	}
	return s
}
