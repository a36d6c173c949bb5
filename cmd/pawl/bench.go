package main

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/internal/lockbench"
	"github.com/spf13/cobra"
)

// A benchRun is one run of pawl bench.
type benchRun struct {
	*app
	store      store
	length     time.Duration // of each kind of work
	goroutines int
	format     string
	kinds      []lockbench.Kind
}

func (a *app) benchCommand() *cobra.Command {
	b := &benchRun{app: a}
	cmd := &cobra.Command{
		Use:   "bench [flags] [KIND…]",
		Short: "Measure how fast locks are in a store",
		Long: `bench acquires and releases locks in the store, and shows how many it managed
per second and how long each took. KIND is any of these; without one, all:

  alone      one goroutine, a name without contention
  apart      many goroutines, each with a name of its own
  together   many goroutines of one client, all with the same name
  handoff    from one client's unlock until another, waiting client has the lock

Names begin with pawl-bench/ and a random word, so that they do not collide with other
locks. What stays in the store is what any released lock leaves: nothing, or rows that
any pawl removes by and by.

The results describe this machine, this network and this store right now. bench loads
the store as much as it can.`,
		Example: `  pawl bench -s redis://localhost:6379
  pawl bench --for 10s --format gobench handoff >new.txt; benchstat old.txt new.txt`,
		ValidArgs: []string{"alone", "apart", "together", "handoff"},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := b.check(args); err != nil {
				return err
			}
			return b.run(cmd.Context())
		},
	}
	f := cmd.Flags()
	durationVar(f, &b.length, "for", "", 2*time.Second, "how `long` each kind of work runs")
	f.IntVarP(&b.goroutines, "goroutines", "g", 64, "how `many` goroutines apart and together use")
	f.StringVar(&b.format, "format", "text", "text, or gobench: lines for benchstat")
	f.BoolVar(&a.json, "json", false, "one JSON array")
	return cmd
}

func (b *benchRun) check(args []string) (err error) {
	all := lockbench.Kinds(b.goroutines)
	var names []string
	for _, k := range all {
		names = append(names, k.Name)
		if len(args) == 0 || slices.Contains(args, k.Name) {
			b.kinds = append(b.kinds, k)
		}
	}
	for _, arg := range args {
		if !slices.Contains(names, arg) {
			return usagef("%q: the kinds of work are %s", arg, strings.Join(names, ", "))
		}
	}
	switch {
	case b.length < time.Millisecond || b.length > time.Hour:
		return usagef("--for %v: from 1ms to 1h", b.length)
	case b.goroutines < 1 || b.goroutines > 10_000:
		return usagef("--goroutines %d: from 1 to 10000", b.goroutines)
	case b.format != "text" && b.format != "gobench":
		return usagef("--format %s: text or gobench", b.format)
	case b.json && b.format != "text":
		return usagef("--json and --format: one of them")
	}
	if b.store, err = b.findOrCreateStore(); err != nil {
		return err
	}
	if strings.HasPrefix(b.store.url, "mem:") {
		return usagef("mem: is a store inside one process; there is nothing to measure for two")
	}
	return nil
}

func (b *benchRun) run(ctx context.Context) error {
	signals := catchSignals()
	defer signals.release()
	ctx, stopInterrupts := signals.interrupts(ctx)
	defer stopInterrupts()
	prefix := "pawl-bench/" + rand.Text()[:12] + "/"
	show := b.reporter()
	sofar := &benchProgress{length: b.length, kinds: len(b.kinds)}
	bar := b.progress(sofar.state)
	defer bar.close()
	for _, k := range b.kinds {
		sofar.begin(k.Name)
		bar.show()
		r, err := b.measure(ctx, k, prefix)
		sofar.end()
		bar.clear()
		if i, ok := errors.AsType[interrupted](context.Cause(ctx)); ok {
			return &exitError{code: exitSignal + int(i.sig)}
		}
		if err != nil {
			return err
		}
		show.add(&r)
	}
	return show.end()
}

// cleanupTime is how long an interrupted run may take to release its locks. If the
// store does not answer, they expire.
const cleanupTime = 5 * time.Second

// measure runs one kind of work.
func (b *benchRun) measure(ctx context.Context, k lockbench.Kind, prefix string) (lockbench.Result, error) {
	type outcome struct {
		lockbench.Result
		err error
	}
	done := make(chan outcome, 1)
	go func() { // ends with ctx, or with the process if the store does not answer
		r, err := lockbench.Run(ctx, k, func(opts ...pawl.Option) (*pawl.Client, error) {
			return b.openStore(ctx, b.store, append(opts, pawl.WithNote(thisProcess("bench", "").Note()))...)
		}, prefix, b.length)
		done <- outcome{r, err}
	}()
	var late <-chan time.Time
	for ended := ctx.Done(); ; {
		select {
		case o := <-done:
			return o.Result, o.err
		case <-ended:
			ended, late = nil, time.After(cleanupTime)
		case <-late:
			return lockbench.Result{}, context.Cause(ctx)
		}
	}
}
