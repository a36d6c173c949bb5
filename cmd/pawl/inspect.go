package main

import (
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"
)

func (a *app) inspectCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "inspect NAME",
		Short: "Show everything known about one lock: who holds it, and the line behind",
		Args:  oneName,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, st, err := a.look(cmd.Context(), false)
			if err != nil {
				return err
			}
			defer leave(c)
			name := args[0]
			line, err := c.Line(cmd.Context(), name)
			if err != nil {
				return err
			}
			all := make([]claimView, len(line))
			for i, e := range line {
				all[i] = viewOf(e, i)
			}
			nodes := nodeViews(cmd.Context(), c, name)
			if a.json {
				for i := range all {
					all[i].Nodes = holding(nodes, all[i].ID)
				}
				return a.printJSON(all)
			}
			text := fmt.Sprintf("%s in %s\n", plain(name), st.shown)
			if len(all) == 0 {
				text += "free: nobody holds it or waits for it\n"
			}
			for _, v := range all {
				text += v.describe()
			}
			for _, n := range nodes {
				text += n.describe()
			}
			_, err = io.WriteString(a.out, text)
			return err
		},
	}
	cmd.Flags().BoolVar(&a.json, "json", false, "one JSON array: the holders, then the line")
	return cmd
}

// oneName checks that there is one argument, a name.
func oneName(cmd *cobra.Command, args []string) error {
	if len(args) == 1 && args[0] == "" {
		return usagef("no lock name: pawl %s", cmd.Use)
	}
	return cobra.ExactArgs(1)(cmd, args)
}

// describe tells of a claim in a few lines.
func (v claimView) describe() string {
	who := holder{v.Holder, v.PID, v.Command, v.Reason}
	s := fmt.Sprintf("%s (%s) by %s for %s\n", v.State, v.mode(), who, brief(duration(v.Seconds)))
	if v.Foreign {
		s = fmt.Sprintf("%s (%s) by another program\n", v.State, v.mode())
	}
	if who.User != "" && v.Reason != "" {
		s += "  reason  " + plain(v.Reason) + "\n"
	}
	if v.State == "held" {
		s += "  token   " + strconv.FormatUint(uint64(v.Token), 10) + "\n"
	} else {
		s += "  place   " + ordinal(max(1, v.Ahead)) + " in line\n"
	}
	return s + fmt.Sprintf("  lease   ends in %s unless it is renewed\n  id      %s\n", brief(duration(v.Left)), v.ID)
}
