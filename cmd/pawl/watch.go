package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-go/pawl"
)

// A changeView is one line of watch --json.
type changeView struct {
	Time  time.Time `json:"time"`
	Event string    `json:"event"` // queued, taken or left
	claimView
}

func (a *app) watchCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "watch [PATTERN]",
		Short: "Show locks being taken and given back, as it happens",
		Long: `watch shows how the locks stand and then what changes, until it is interrupted. It
looks four times a second, less often where that would keep the store busy: what came
and went in between is not seen.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			prefix, match, err := pattern(args)
			if err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			c, _, err := a.look(ctx, true)
			if err != nil {
				return err
			}
			defer leave(c)
			return a.watch(ctx, c, prefix, match)
		},
	}
	cmd.Flags().BoolVar(&a.json, "json", false, "one JSON object a line")
	return cmd
}

func (a *app) watch(ctx context.Context, c *pawl.Client, prefix string, match func(string) bool) error {
	enc := json.NewEncoder(a.out)
	var told string // the last error that was said, and when
	var at time.Time
	for ch, err := range c.Watch(ctx, prefix) {
		now := time.Now()
		if err != nil {
			if text := oneLine(err); text != told || now.Sub(at) >= lineEvery {
				a.say("%s", text)
				told, at = text, now
			}
			continue
		}
		if !match(ch.Entry.Name) {
			continue
		}
		v := viewOf(ch.Entry, 0)
		if a.json {
			err = enc.Encode(changeView{now.UTC(), ch.Step.String(), v})
		} else {
			who := holder{v.Holder, v.PID, v.Command, v.Reason}
			_, err = fmt.Fprintf(a.out, "%s  %-6s  %s  %s\n", now.Format("15:04:05.000"), ch.Step, plain(v.Name), who)
		}
		if err != nil {
			return nil // whoever read us has gone
		}
	}
	return nil
}
