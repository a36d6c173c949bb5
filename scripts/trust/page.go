package main

import (
	"bytes"
	_ "embed"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"text/template"
	"time"
)

//go:embed page.md
var pageText string

// page returns docs/trust.md.
func (t *trust) page() ([]byte, error) {
	tmpl, err := template.New("page").Funcs(template.FuncMap{
		"thousands": thousands,
		"seconds":   func(s float64) string { return time.Duration(s * float64(time.Second)).Round(time.Second).String() },
		"fault":     func(v verified, kind string) string { return orDash(v.Outcome.Counts.Faults[kind]) },
		"checked":   checked,
		"sum":       func(all []verified, what string) string { return thousands(sum(all, what)) },
		"cell":      func(s string) string { return strings.ReplaceAll(s, "|", `\|`) },
	}).Parse(pageText)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	err = tmpl.Execute(&b, struct {
		*results
		Faults, Promises []string
	}{&t.results, faultKinds, t.promises()})
	return b.Bytes(), err
}

var faultKinds = []string{"pause", "kill", "cut", "cut-requests", "cut-replies", "delay", "swallow", "reset"}

// promises returns the promises that were checked on any store, in verify's order.
func (t *trust) promises() (all []string) {
	for _, v := range t.Verify.Result {
		for _, p := range v.Outcome.Promises {
			if !slices.Contains(all, p.Promise) {
				all = append(all, p.Promise)
			}
		}
	}
	return all
}

// checked returns on how much a promise was checked.
func checked(v verified, name string) string {
	for _, p := range v.Outcome.Promises {
		switch {
		case p.Promise != name:
		case !p.Kept:
			return "**broken**"
		case p.Undecided > 0:
			return fmt.Sprintf("%s, %d parts undecided", thousands(p.Checked), p.Undecided)
		default:
			return orDash(p.Checked)
		}
	}
	return "not promised"
}

func orDash(n int) string {
	if n == 0 {
		return "–"
	}
	return thousands(n)
}

func sum(all []verified, what string) (n int) {
	for _, v := range all {
		c := v.Outcome.Counts
		n += map[string]int{"operations": c.Operations, "grants": c.Grants, "losses": c.Losses, "stale": c.StaleWrites, "faults": c.FaultsInAll}[what]
	}
	return n
}

// thousands returns n with spaces between groups of three digits.
func thousands(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + " " + s[i:]
	}
	return s
}
