package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
)

// claimJSON is one claim in --json: the schema of ls, inspect and watch.
type claimJSON struct {
	Name    string  `json:"name"`
	Mode    string  `json:"mode"`  // exclusive, shared or permits
	State   string  `json:"state"` // held or waiting
	Need    int     `json:"need,omitempty"`
	Limit   int     `json:"limit,omitempty"`
	Token   token   `json:"token,omitempty"` // decimal digits; absent while waiting
	ID      string  `json:"id"`
	Holder  string  `json:"holder,omitempty"` // user@host
	PID     int     `json:"pid,omitempty"`
	Command string  `json:"command,omitempty"`
	Reason  string  `json:"reason,omitempty"`
	Seconds float64 `json:"seconds"`           // held or waiting for this long
	Left    float64 `json:"left,omitempty"`    // seconds until it expires unless renewed
	Ahead   int     `json:"ahead,omitempty"`   // claims ahead in line, while waiting
	Foreign bool    `json:"foreign,omitempty"` // held by a program that is not pawl

	Election string `json:"election,omitempty"` // the election that its holder leads; name is then the lock behind it
	Value    string `json:"value,omitempty"`    // the candidate's value

	Nodes []string `json:"nodes,omitempty"` // the quorum's nodes that hold it; inspect only
}

// newClaimJSON converts an entry. Fence is the engine's own token; the token that
// users see has the pass in its low byte.
func newClaimJSON(e driver.Entry, ahead int) claimJSON {
	v := claimJSON{
		Name: e.Name, Mode: "exclusive", State: "waiting", ID: e.ID, Token: token(e.Fence << 8),
		Seconds: seconds(e.Since), Left: seconds(e.Left), Foreign: e.Foreign,
	}
	var ok bool
	if v.Election, ok = electionOf(e.Name); ok {
		v.Value = e.Note
	} else {
		who := parseNote(e.Note)
		v.Holder, v.PID, v.Command, v.Reason = who.User, who.PID, who.Command, who.Reason
	}
	switch {
	case e.Exclusive():
	case e.Limit == driver.All:
		v.Mode = "shared"
	default:
		v.Mode, v.Need, v.Limit = "permits", e.Need, e.Limit
	}
	if e.Held {
		v.State = "held"
	} else {
		v.Ahead = ahead
	}
	return v
}

func seconds(d time.Duration) float64 { return float64(d.Milliseconds()) / 1000 }

// A selection is the meaning of PATTERN: name prefixes to list, and a filter.
// Elections also match by their own name.
type selection struct {
	prefixes []string
	match    func(string) bool
}

func (s selection) wants(name string) bool {
	election, ok := electionOf(name)
	return s.match(name) || ok && s.match(election)
}

// claims lists the selected claims, each with the number of claims ahead of it.
func claims(ctx context.Context, c *pawl.Client, s selection) ([]claimJSON, error) {
	var all []claimJSON
	for i, prefix := range s.prefixes {
		name, ahead := "", 0
		for e, err := range c.List(ctx, prefix) {
			if i > 0 && errors.Is(err, pawl.ErrDenied) {
				break // the user may only read the locks of the first prefix
			}
			if err != nil {
				return nil, err
			}
			if e.Name != name {
				name, ahead = e.Name, 0
			}
			if s.wants(e.Name) {
				all = append(all, newClaimJSON(e, ahead))
			}
			ahead++
		}
	}
	return all, nil
}

// pattern parses a glob. A name without wildcards selects itself and all names that
// begin with it.
func pattern(args []string) (selection, error) {
	s := selection{[]string{""}, func(string) bool { return true }}
	if len(args) == 0 {
		return s, nil
	}
	glob := args[0]
	at := strings.IndexAny(glob, `*?[\`)
	if at < 0 {
		at = len(glob)
	} else {
		if _, err := path.Match(glob, ""); err != nil {
			return s, usagef("%q: %w", glob, err)
		}
		// Names are not paths: * also matches slashes.
		flat := strings.NewReplacer("/", "\x00")
		s.match = func(name string) bool {
			ok, _ := path.Match(flat.Replace(glob), flat.Replace(name))
			return ok
		}
	}
	prefix := glob[:at]
	if s.prefixes[0] = prefix; !strings.HasPrefix(elections, prefix) && !strings.HasPrefix(prefix, elections) {
		s.prefixes = append(s.prefixes, elections+prefix)
	}
	return s, nil
}

func (a *app) lsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "ls [PATTERN]",
		Short: "List held locks, with the number of waiters",
		Long: `ls lists the locks that are held. PATTERN is a name, the beginning of one, or a
pattern with wildcards: * for anything, ? for one character, [a-z] for a range.

Elections are shown by their name, with the leader's value instead of the holder.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			selected, err := pattern(args)
			if err != nil {
				return err
			}
			c, _, err := a.openReadOnly(cmd.Context(), false)
			if err != nil {
				return err
			}
			defer closeClient(c)
			all, err := claims(cmd.Context(), c, selected)
			if err != nil {
				return err
			}
			if a.json {
				return a.printJSON(all)
			}
			return a.table(all)
		},
	}
	cmd.Flags().BoolVar(&a.json, "json", false, "one JSON array")
	return cmd
}

// maxColumn limits the width of holders and commands, which are arbitrary text, so
// that they cannot push the other columns off the screen.
const maxColumn = 64

// table prints the held claims.
func (a *app) table(all []claimJSON) error {
	waiting := map[string]int{}
	for _, v := range all {
		if v.State == "waiting" {
			waiting[v.Name]++
		}
	}
	rows := [][]string{{"NAME", "MODE", "HOLDER", "PID", "COMMAND", "HELD", "LEASE", "WAITING", "TOKEN"}}
	for _, v := range all {
		if v.State == "held" {
			rows = append(rows, []string{v.title(), v.mode(), dash(cut(cmp.Or(v.Holder, v.Value), maxColumn)), dash(number(v.PID)), dash(cut(v.Command, maxColumn)),
				brief(duration(v.Seconds)), brief(duration(v.Left)), strconv.Itoa(waiting[v.Name]), strconv.FormatUint(uint64(v.Token), 10)})
		}
	}
	if len(rows) == 1 && !isTerminal(a.out) {
		return nil
	}
	return a.printTable(rows)
}

func (v claimJSON) mode() string {
	switch {
	case v.Election != "":
		return "election"
	case v.Mode == "permits":
		return fmt.Sprintf("%d of %d", v.Need, v.Limit)
	}
	return v.Mode
}

// title returns the name that users know the lock by, in an unambiguous form.
func (v claimJSON) title() string { return shownName(cmp.Or(v.Election, v.Name)) }

// who describes the holder or the candidate in a phrase.
func (v claimJSON) who() string {
	if v.Election != "" {
		return cmp.Or(v.Value, "somebody")
	}
	return holder{v.Holder, v.PID, v.Command, v.Reason}.String()
}

func duration(seconds float64) time.Duration { return time.Duration(seconds * float64(time.Second)) }

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func number(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}
