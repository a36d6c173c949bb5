package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
)

// A claimView is one claim in --json: the one schema of ls, inspect and watch.
type claimView struct {
	Name    string  `json:"name"`
	Mode    string  `json:"mode"`  // exclusive, shared or permits
	State   string  `json:"state"` // held or waiting
	Need    int     `json:"need,omitempty"`
	Limit   int     `json:"limit,omitempty"`
	Token   token   `json:"token,omitempty"` // a string of digits; none while waiting
	ID      string  `json:"id"`
	Holder  string  `json:"holder,omitempty"` // user@host
	PID     int     `json:"pid,omitempty"`
	Command string  `json:"command,omitempty"`
	Reason  string  `json:"reason,omitempty"`
	Seconds float64 `json:"seconds"`           // held or waiting for so long
	Left    float64 `json:"left,omitempty"`    // seconds until it expires unless it is renewed
	Ahead   int     `json:"ahead,omitempty"`   // claims before it in line, while waiting
	Foreign bool    `json:"foreign,omitempty"` // held by a program that is not pawl

	Nodes []string `json:"nodes,omitempty"` // of a quorum, that hold it; shown by inspect
}

// viewOf shows an entry as a claimView. The fence is the engine's own token; the
// command's is that with the pass in its low byte.
func viewOf(e driver.Entry, ahead int) claimView {
	who := holderOf(e.Note)
	v := claimView{
		Name: e.Name, Mode: "exclusive", State: "waiting", ID: e.ID, Token: token(e.Token << 8),
		Holder: who.User, PID: who.PID, Command: who.Command, Reason: who.Reason,
		Seconds: seconds(e.Since), Left: seconds(e.Left), Foreign: e.Foreign,
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

// claims lists the claims on names that match, each with how many are before it.
func claims(ctx context.Context, c *pawl.Client, prefix string, match func(string) bool) ([]claimView, error) {
	var all []claimView
	name, ahead := "", 0
	for e, err := range c.List(ctx, prefix) {
		if err != nil {
			return nil, err
		}
		if e.Name != name {
			name, ahead = e.Name, 0
		}
		if match(e.Name) {
			all = append(all, viewOf(e, ahead))
		}
		ahead++
	}
	return all, nil
}

// pattern makes a matcher of a glob, and the longest prefix that all matches have.
// A name without wildcards matches itself and what begins with it.
func pattern(args []string) (prefix string, match func(string) bool, err error) {
	if len(args) == 0 {
		return "", func(string) bool { return true }, nil
	}
	glob := args[0]
	at := strings.IndexAny(glob, `*?[\`)
	if at < 0 {
		return glob, func(string) bool { return true }, nil
	}
	if _, err := path.Match(glob, ""); err != nil {
		return "", nil, usagef("%q: %w", glob, err)
	}
	// Names are not paths: * crosses slashes.
	flat := strings.NewReplacer("/", "\x00")
	return glob[:at], func(name string) bool {
		ok, _ := path.Match(flat.Replace(glob), flat.Replace(name))
		return ok
	}, nil
}

func (a *app) lsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "ls [PATTERN]",
		Short: "List the locks that are held, and how many wait",
		Long: `ls lists the locks that are held. PATTERN is a name or the beginning of one, or has
wildcards: * for anything, ? for one character, [a-z] for a range.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			prefix, match, err := pattern(args)
			if err != nil {
				return err
			}
			c, _, err := a.look(cmd.Context(), false)
			if err != nil {
				return err
			}
			defer leave(c)
			all, err := claims(cmd.Context(), c, prefix, match)
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

// table prints the claims that are held.
func (a *app) table(all []claimView) error {
	waiting := map[string]int{}
	for _, v := range all {
		if v.State == "waiting" {
			waiting[v.Name]++
		}
	}
	rows := [][]string{{"NAME", "MODE", "HOLDER", "PID", "COMMAND", "HELD", "LEASE", "WAITING", "TOKEN"}}
	for _, v := range all {
		if v.State == "held" {
			rows = append(rows, []string{plain(v.Name), v.mode(), dash(plain(v.Holder)), dash(number(v.PID)), dash(plain(v.Command)),
				brief(duration(v.Seconds)), brief(duration(v.Left)), strconv.Itoa(waiting[v.Name]), strconv.FormatUint(uint64(v.Token), 10)})
		}
	}
	if len(rows) == 1 && !isTerminal(a.out) {
		return nil
	}
	_, err := io.WriteString(a.out, columns(rows))
	return err
}

func (v claimView) mode() string {
	if v.Mode == "permits" {
		return fmt.Sprintf("%d of %d", v.Need, v.Limit)
	}
	return v.Mode
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

// printJSON prints v; an empty list is [], not null.
func (a *app) printJSON(v any) error {
	if list, ok := v.([]claimView); ok && list == nil {
		v = []claimView{}
	}
	enc := json.NewEncoder(a.out)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}
