package main

import (
	"context"
	"crypto/rand"
	"errors"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/internal/lockbench"
)

// A trial is one run of bench.
type trial struct {
	*app
	store      store
	length     time.Duration // of each kind
	goroutines int
	format     string
	kinds      []lockbench.Kind
}

func (a *app) benchCommand() *cobra.Command {
	t := &trial{app: a}
	cmd := &cobra.Command{
		Use:   "bench [flags] [KIND…]",
		Short: "Measure how fast locks are in a store",
		Long: `bench takes and gives back locks in the store, and shows how many it can do in a
second and how long each took. KIND is any of these; without one, all:

  alone      one goroutine, a name that nobody else wants
  apart      many goroutines, each with a name of its own
  together   many goroutines of one client that want the same name
  handoff    from one client's unlock until another, who waited, has the lock

Names begin with pawl-bench/ and a random word, so that nobody's locks are in the
way of anybody's. What is left in the store is what a lock leaves that was given
back: nothing, or rows that any pawl removes when they were idle for an hour.

The figures are those of this machine, this network and this store now. They load
the store as much as they can.`,
		Example: `  pawl bench -s redis://localhost:6379
  pawl bench --for 10s --format gobench handoff >new.txt; benchstat old.txt new.txt`,
		ValidArgs: []string{"alone", "apart", "together", "handoff"},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := t.check(args); err != nil {
				return err
			}
			return t.run(cmd.Context())
		},
	}
	f := cmd.Flags()
	durationVar(f, &t.length, "for", "", 2*time.Second, "how `long` each kind of work is done")
	f.IntVarP(&t.goroutines, "goroutines", "g", 64, "how `many` goroutines apart and together have")
	f.StringVar(&t.format, "format", "text", "text, or gobench: lines for benchstat")
	f.BoolVar(&a.json, "json", false, "one JSON array")
	return cmd
}

func (t *trial) check(args []string) (err error) {
	all := lockbench.Kinds(t.goroutines)
	var names []string
	for _, k := range all {
		names = append(names, k.Name)
		if len(args) == 0 || slices.Contains(args, k.Name) {
			t.kinds = append(t.kinds, k)
		}
	}
	for _, arg := range args {
		if !slices.Contains(names, arg) {
			return usagef("%q: the kinds of work are %s", arg, strings.Join(names, ", "))
		}
	}
	switch {
	case t.length < time.Millisecond || t.length > time.Hour:
		return usagef("--for %v: from 1ms to 1h", t.length)
	case t.goroutines < 1 || t.goroutines > 10_000:
		return usagef("--goroutines %d: from 1 to 10000", t.goroutines)
	case t.format != "text" && t.format != "gobench":
		return usagef("--format %s: text or gobench", t.format)
	case t.json && t.format != "text":
		return usagef("--json and --format: one of them")
	}
	if t.store, err = t.chosen(); err != nil {
		return err
	}
	if strings.HasPrefix(t.store.url, "mem:") {
		return usagef("mem: is a store inside one process; there is nothing to measure for two")
	}
	return nil
}

func (t *trial) run(ctx context.Context) error {
	signals := catch()
	defer signals.release()
	ctx, calm := signals.interrupts(ctx)
	defer calm()
	prefix := "pawl-bench/" + rand.Text()[:12] + "/"
	show := t.reporter()
	bar := t.progress()
	defer bar.close()
	for _, k := range t.kinds {
		bar.begin(k.Name)
		r, err := t.measure(ctx, k, prefix)
		bar.clear()
		if i, ok := errors.AsType[interrupted](context.Cause(ctx)); ok {
			return &coded{code: exitSignal + int(i.sig)}
		}
		if err != nil {
			return err
		}
		show.add(&r)
	}
	return show.end()
}

// lastWord is how long an interrupted work may take to give back what it holds. A
// store that does not answer is not waited for: there it ends with its TTL.
const lastWord = 5 * time.Second

// measure does one kind of work.
func (t *trial) measure(ctx context.Context, k lockbench.Kind, prefix string) (lockbench.Result, error) {
	type outcome struct {
		lockbench.Result
		err error
	}
	done := make(chan outcome, 1)
	go func() { // ends with ctx, or with the process if the store does not answer
		r, err := lockbench.Run(ctx, k, func(opts ...pawl.Option) (*pawl.Client, error) {
			return t.open(ctx, t.store, append(opts, pawl.WithNote(self("bench", "").note()))...)
		}, prefix, t.length)
		done <- outcome{r, err}
	}()
	var late <-chan time.Time
	for ended := ctx.Done(); ; {
		select {
		case o := <-done:
			return o.Result, o.err
		case <-ended:
			ended, late = nil, time.After(lastWord)
		case <-late:
			return lockbench.Result{}, context.Cause(ctx)
		}
	}
}

// coloured reports whether colour is wanted on what is written to out.
func (a *app) coloured() bool {
	return isTerminal(a.out) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}
