package sqlstore

import (
	"fmt"
	"strconv"
	"strings"
)

// A Statement is an SQL statement in one dialect's syntax.
type Statement struct {
	Name   string // unique within an engine
	Text   string
	Params []Param // in the order in which they are bound
}

// Empty reports whether the dialect has no such statement.
func (s *Statement) Empty() bool { return s.Text == "" }

// A Syntax is how a dialect writes statements.
type Syntax struct {
	// Macros replace {name} in statements. Every dialect has head, claim and record
	// (the tables), now and wall (microseconds: the clock of expiry and the wall
	// clock), mint (a token above all that the store itself knows) and max (the
	// greatest of several values).
	Macros map[string]string

	Placeholder string // what a parameter begins with: "?" or "$"
	Numbered    bool   // a number follows the placeholder, and a parameter may be used again

	// Cast returns what follows a parameter, where the database would otherwise have
	// to guess its type. Nil: nothing follows.
	Cast func(Param) string
}

// Translate expands the macros of a statement and replaces :name by the dialect's
// placeholder. Comments at the beginning are dropped.
func (x *Syntax) Translate(text string) (*Statement, error) {
	for strings.HasPrefix(text, "--") {
		_, text, _ = strings.Cut(text, "\n")
	}
	text, err := x.expand(strings.TrimSpace(text))
	if err != nil {
		return nil, err
	}
	s := &Statement{}
	var out strings.Builder
	for {
		before, rest, found := strings.Cut(text, ":")
		out.WriteString(before)
		if !found {
			break
		}
		end := 0
		for end < len(rest) && rest[end] >= 'a' && rest[end] <= 'z' {
			end++
		}
		p, known := paramNames[rest[:end]]
		if !known { // also "::", a cast
			return nil, fmt.Errorf("unknown parameter %q", ":"+rest[:end])
		}
		out.WriteString(x.Placeholder)
		if n := s.bind(p, x.Numbered); x.Numbered {
			out.WriteString(strconv.Itoa(n))
		}
		if x.Cast != nil {
			out.WriteString(x.Cast(p))
		}
		text = rest[end:]
	}
	s.Text = out.String()
	return s, nil
}

// expand replaces the macros of a statement.
func (x *Syntax) expand(text string) (string, error) {
	var out strings.Builder
	for {
		before, rest, found := strings.Cut(text, "{")
		out.WriteString(before)
		if !found {
			return out.String(), nil
		}
		name, after, _ := strings.Cut(rest, "}")
		value, known := x.Macros[name]
		if !known {
			return "", fmt.Errorf("unknown macro at %.20q", text[len(before):])
		}
		out.WriteString(value)
		text = after
	}
}

// bind returns the number of p among the parameters, from 1.
func (s *Statement) bind(p Param, reuse bool) int {
	for i, have := range s.Params {
		if reuse && have == p {
			return i + 1
		}
	}
	s.Params = append(s.Params, p)
	return len(s.Params)
}
