package main

import (
	"cmp"
	"context"
	"errors"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/cmd/pawl/internal/claimview"
)

// claims lists the selected claims, each with the number of claims ahead of it.
func claims(ctx context.Context, c *pawl.Client, s claimview.Selection) ([]claimview.Claim, error) {
	var all []claimview.Claim
	for i, prefix := range s.Prefixes {
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
			if s.Wants(e.Name) {
				all = append(all, claimview.New(e, ahead))
			}
			ahead++
		}
	}
	return all, nil
}

// pattern parses PATTERN, if there is one.
func pattern(args []string) (claimview.Selection, error) {
	if len(args) == 0 {
		return claimview.Everything(), nil
	}
	s, err := claimview.Pattern(args[0])
	if err != nil {
		return s, usagef("%w", err)
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
func (a *app) table(all []claimview.Claim) error {
	waiting := map[string]int{}
	for _, v := range all {
		if v.State == "waiting" {
			waiting[v.Name]++
		}
	}
	rows := [][]string{{"NAME", "MODE", "HOLDER", "PID", "COMMAND", "HELD", "LEASE", "WAITING", "TOKEN"}}
	for _, v := range all {
		if v.State == "held" {
			rows = append(rows, []string{v.Title(), v.ModeShown(), dash(cut(cmp.Or(v.Holder, v.Value), maxColumn)), dash(number(v.PID)), dash(cut(v.Command, maxColumn)),
				claimview.Brief(v.Age()), claimview.Brief(v.Lease()), strconv.Itoa(waiting[v.Name]), v.Token.String()})
		}
	}
	if len(rows) == 1 && !isTerminal(a.out) {
		return nil
	}
	return a.printTable(rows)
}

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
