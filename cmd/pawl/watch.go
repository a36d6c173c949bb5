package main

import (
	"context"
	"iter"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/cmd/pawl/internal/claimview"
)

// changeJSON is one line of watch --json.
type changeJSON struct {
	Time  time.Time `json:"time"`
	Event string    `json:"event"` // queued, taken or left
	claimview.Claim
}

func (a *app) watchCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "watch [PATTERN]",
		Short: "Show locks as they are taken and released",
		Long: `watch shows the current locks and then every change, until it is interrupted. It polls
four times a second, or less often where that would load the store: what comes and
goes in between is not shown.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			selected, err := pattern(args)
			if err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			c, _, err := a.openReadOnly(ctx, true)
			if err != nil {
				return err
			}
			defer closeClient(c)
			return a.watch(ctx, c, selected)
		},
	}
	cmd.Flags().BoolVar(&a.json, "json", false, "one JSON object per line")
	return cmd
}

func (a *app) watch(ctx context.Context, c *pawl.Client, s claimview.Selection) error {
	var told string // the last error that was printed, and when
	var at time.Time
	for ch, err := range changes(ctx, c, s.Prefixes) {
		now := time.Now()
		if err != nil {
			if text := oneLine(err); text != told || now.Sub(at) >= lineEvery {
				a.say("%s", text)
				told, at = text, now
			}
			continue
		}
		if !s.Wants(ch.Entry.Name) {
			continue
		}
		v := claimview.New(ch.Entry, ch.Ahead)
		if a.json {
			err = a.printJSONLine(changeJSON{now.UTC(), ch.Step.String(), v})
		} else {
			err = a.print("%s  %-6s  %s  %s\n", now.Format("15:04:05.000"), ch.Step, v.Subject(), v.Who())
		}
		if err != nil {
			return nil // the reader has gone
		}
	}
	return nil
}

// changes watches all prefixes. It reports only the errors of the first, because
// all are in the same store.
func changes(ctx context.Context, c *pawl.Client, prefixes []string) iter.Seq2[pawl.Change, error] {
	if len(prefixes) == 1 {
		return c.Watch(ctx, prefixes[0])
	}
	return func(yield func(pawl.Change, error) bool) {
		type seen struct {
			pawl.Change
			err error
		}
		ctx, stop := context.WithCancel(ctx)
		all := make(chan seen)
		var group sync.WaitGroup
		defer group.Wait()
		defer stop()
		for i, prefix := range prefixes {
			group.Go(func() { // ends with ctx
				for ch, err := range c.Watch(ctx, prefix) {
					if i > 0 && err != nil {
						continue
					}
					select {
					case all <- seen{ch, err}:
					case <-ctx.Done():
					}
				}
			})
		}
		for {
			select {
			case s := <-all:
				if !yield(s.Change, s.err) {
					return
				}
			case <-ctx.Done():
				return
			}
		}
	}
}
