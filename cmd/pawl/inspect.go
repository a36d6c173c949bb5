package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/cmd/pawl/internal/claimview"
)

func (a *app) inspectCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "inspect NAME",
		Short: "Show everything about one lock: its holders and its line",
		Long: `inspect shows the holders of the lock NAME and its line. If there is an election of
that name, it also shows the leader and the candidates.`,
		Args: oneName,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, st, err := a.openReadOnly(cmd.Context(), false)
			if err != nil {
				return err
			}
			defer closeClient(c)
			all, nodes, err := lineOf(cmd.Context(), c, args[0])
			if err != nil {
				return err
			}
			if a.json {
				for i := range all {
					all[i].Nodes = holding(nodes, all[i].ID)
				}
				return a.printJSON(all)
			}
			return a.describe(args[0], st, all, nodes)
		},
	}
	cmd.Flags().BoolVar(&a.json, "json", false, "one JSON array: the holders, then the line; then those of the election")
	return cmd
}

// oneName checks that there is exactly one argument, a name.
func oneName(cmd *cobra.Command, args []string) error {
	if len(args) == 1 && args[0] == "" {
		return usagef("no lock name: pawl %s", cmd.Use)
	}
	return cobra.ExactArgs(1)(cmd, args)
}

// lineOf returns the claims of a lock, followed by the claims of the election of
// that name.
func lineOf(ctx context.Context, c *pawl.Client, name string) (all []claimview.Claim, nodes []nodeState, err error) {
	locks := []string{name}
	if lock := claimview.ElectionLock(name); lock != "" && !strings.HasPrefix(name, claimview.Elections) && len(lock) <= pawl.MaxName {
		locks = append(locks, lock)
	}
	for i, lock := range locks {
		line, err := c.Line(ctx, lock)
		if i > 0 && errors.Is(err, pawl.ErrDenied) {
			break // the user may only read this lock
		}
		if err != nil {
			return nil, nil, err
		}
		if i == 0 || len(line) > 0 {
			nodes = append(nodes, nodeStates(ctx, c, lock)...)
		}
		for place, e := range line {
			all = append(all, claimview.New(e, place))
		}
	}
	return all, nodes, nil
}

// describe prints the result of inspect.
func (a *app) describe(name string, st store, all []claimview.Claim, nodes []nodeState) error {
	title := claimview.ShownName(name)
	if len(all) > 0 {
		title = all[0].Subject()
	}
	lines := []string{title + " in " + st.shown}
	if len(all) == 0 {
		lines = append(lines, "free: nobody holds it or waits for it")
	}
	for i, v := range all {
		if i > 0 && v.Subject() != all[i-1].Subject() {
			lines = append(lines, v.Subject()+" in "+st.shown)
		}
		lines = append(lines, describeClaim(v)...)
	}
	for _, n := range nodes {
		lines = append(lines, n.describe())
	}
	for _, line := range lines {
		if err := a.print("%s\n", line); err != nil {
			return err
		}
	}
	return nil
}

// describeClaim describes a claim in a few lines.
func describeClaim(v claimview.Claim) []string {
	lines := []string{fmt.Sprintf("%s (%s) by %s for %s", v.State, v.ModeShown(), v.Who(), claimview.Brief(v.Age()))}
	if v.Foreign {
		lines[0] = fmt.Sprintf("%s (%s) by another program", v.State, v.ModeShown())
	}
	if v.Holder != "" && v.Reason != "" {
		lines = append(lines, "  reason  "+v.Reason)
	}
	if v.State == "held" {
		lines = append(lines, "  token   "+v.Token.String())
	} else {
		lines = append(lines, "  place   "+ordinal(max(1, v.Ahead))+" in line")
	}
	return append(lines, "  lease   ends in "+claimview.Brief(v.Lease())+" unless it is renewed", "  id      "+v.ID)
}
