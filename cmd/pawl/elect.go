package main

import (
	"context"
	"errors"

	"github.com/pawl-go/pawl/election"
	"github.com/spf13/cobra"
)

func (a *app) electCommand() *cobra.Command {
	j := &job{app: a, verb: "elect"}
	cmd := &cobra.Command{
		Use:   "elect [flags] NAME VALUE [--] COMMAND…",
		Short: "Run a command while leading",
		Long: `elect stands for election in NAME and runs COMMAND while it leads. Others see VALUE,
such as an address: with NAME alone, elect prints the value of the current leader.

When COMMAND ends, the next in line leads. When the leadership is lost, COMMAND is
stopped before another can lead, and the exit code is 79; if a supervisor restarts
elect, it queues again. Flags and exit codes are those of pawl run; if there is no
leader to print, the exit code is 75.`,
		Example: `  pawl elect scheduler 10.0.0.7:8080 -- ./scheduler
  pawl elect scheduler`,
		DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				return a.leader(cmd.Context(), args[0], j.busyCode)
			}
			if len(args) == 0 {
				return usagef("no election: pawl elect [flags] NAME VALUE -- COMMAND")
			}
			j.waitGiven, j.ttlGiven = cmd.Flags().Changed("wait"), cmd.Flags().Changed("ttl")
			switch j.value = args[1]; {
			case j.value == "--":
				return usagef("no value: pawl elect [flags] %s VALUE -- COMMAND", operand(args[0]))
			case len(j.value) > 1 && j.value[0] == '-':
				return usagef("%s: flags go before the name of the election: pawl elect [flags] %s VALUE -- COMMAND", j.value, operand(args[0]))
			}
			if err := j.check(append(args[:1:1], args[2:]...)); err != nil {
				return err
			}
			return j.run(cmd.Context())
		},
	}
	j.flags(cmd.Flags())
	return cmd
}

// leader prints the value of the current leader.
func (a *app) leader(ctx context.Context, name string, vacant int) error {
	c, _, err := a.openReadOnly(ctx, false)
	if err != nil {
		return err
	}
	defer closeClient(c)
	l, err := election.New(c, name).Leader(ctx)
	if errors.Is(err, election.ErrNoLeader) {
		return &exitError{vacant, err}
	}
	if err != nil {
		return err
	}
	return a.print("%s\n", l.Value)
}
