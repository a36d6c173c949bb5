package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/cmd/pawl/internal/claimview"
	"github.com/pawl-go/pawl/cmd/pawl/internal/verify"
	"github.com/pawl-go/pawl/driver"
	"github.com/spf13/cobra"
)

// The exit codes of verify. Those of an invalid command line and of a signal are as
// everywhere.
const (
	exitViolated  = 1
	exitCannotRun = 2
)

// mostAttempts is about how many attempts a run makes, all of which are kept in memory, in
// about a gigabyte. On a busy Redis they take ten minutes.
const mostAttempts = 2_000_000

// verifyWorkerVerb is the first argument of a worker process.
const verifyWorkerVerb = "verify-worker"

// isVerifyWorker reports whether this is the command line of a worker of verify.
func isVerifyWorker(args []string) bool { return len(args) == 2 && args[1] == verifyWorkerVerb }

// verifyWorkerMain runs a worker of verify and returns its exit code.
func verifyWorkerMain() int {
	failOnBrokenPipe()
	if verify.Work(os.Stdin, os.Stdout) != nil { // its coordinator was told why
		return exitFailed
	}
	return 0
}

// A verification is one run of pawl verify.
type verification struct {
	*app
	store    store
	config   verify.Config
	faults   []string
	prefix   string
	report   string // file
	selfTest bool
}

func (a *app) verifyCommand() *cobra.Command {
	v := &verification{app: a}
	cmd := &cobra.Command{
		Use:   "verify [flags]",
		Short: "Show whether locks keep their promises in a store, under faults",
		Long: `verify starts worker processes that contend for a few locks in the store: mutexes,
readers and writers, permits; they wait, try, and give up waiting. Under each exclusive
lock they write to a register outside the store, which refuses stale tokens. At times one
worker holds all it gets for longer than the TTL. Meanwhile faults are brought to one
worker after the other:

  pause         stopped for longer than the TTL
  kill          killed with -9, and started again
  cut           nothing reaches the store, and nothing comes from it
  cut-requests  nothing reaches the store
  cut-replies   nothing comes from the store
  delay         everything takes longer
  swallow       a request arrives, and its reply does not
  reset         every connection is reset

The faults are made inside the workers; nothing is done to the store or its network. Then
all that happened is checked: one holder at a time, tokens, loss signals, stale writes,
claims that the store forgot, leases that were lost while nothing was wrong, the order of
the line, linearizability, and that nothing is left in the store.

Names begin with pawl-verify/ and a random word. What stays in the store is what any
released lock leaves: nothing, or rows that any pawl removes by and by. verify loads
the store as much as a few busy clients do; in a long run it rests in between.

A promise that a run was too short to show is "not seen": a name may stay free for two
TTLs and two seconds before a waiter is called forgotten.

Exit codes: 0 all promises were kept, 1 one was broken, 2 it could not run or the result
could not be written.`,
		Example: `  pawl verify -s redis://localhost:6379
  pawl verify -s etcd://h1,h2,h3 --for 10m --report verify.html
  pawl verify --faults pause,kill
  pawl verify --self-test`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := v.check(cmd); err != nil {
				return err
			}
			return v.run(cmd.Context())
		},
	}
	f := cmd.Flags()
	durationVar(f, &v.config.Length, "for", "", time.Minute, "how `long` the workers work")
	durationVar(f, &v.config.TTL, "ttl", "", 2*time.Second, "the `TTL` of the locks")
	f.IntVarP(&v.config.Workers, "workers", "w", 4, "how `many` processes")
	f.IntVarP(&v.config.Lanes, "goroutines", "g", 4, "how `many` goroutines of each contend for the names of all, besides two that share names with one other process and one that only tries")
	f.StringSliceVar(&v.faults, "faults", nil, "which faults, by commas; none for none (default all that the store can have)")
	f.StringVar(&v.prefix, "prefix", "", "what the names of the locks begin with (default pawl-verify/ and a random word)")
	f.Uint64Var(&v.config.Seed, "seed", 0, "draw the same work and faults again; their timing differs")
	f.StringVar(&v.report, "report", "", "write a page with a timeline to this `file`")
	f.BoolVar(&a.json, "json", false, "one JSON object")
	f.BoolVar(&v.selfTest, "self-test", false, "show that planted bugs are found; uses no store")
	_ = cmd.RegisterFlagCompletionFunc("faults", cobra.FixedCompletions(append(verify.Faults(), "none"), cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.MarkFlagFilename("report", "html")
	return cmd
}

func (v *verification) check(cmd *cobra.Command) (err error) {
	c := &v.config
	switch {
	case c.Length < time.Second || c.Length > 24*time.Hour:
		return usagef("--for %v: from 1s to 24h", c.Length)
	case c.TTL < 500*time.Millisecond || c.TTL > time.Minute:
		return usagef("--ttl %v: from 500ms to 1m", c.TTL)
	case c.Workers < 2 || c.Workers > 64:
		return usagef("--workers %d: from 2 to 64", c.Workers)
	case c.Lanes < 1 || c.Lanes > 64:
		return usagef("--goroutines %d: from 1 to 64", c.Lanes)
	}
	for _, f := range v.faults {
		if !slices.Contains(verify.Faults(), f) && f != "none" {
			return usagef("--faults %s: known are %s, none", f, strings.Join(verify.Faults(), ", "))
		}
	}
	if slices.Contains(v.faults, "none") && len(v.faults) > 1 {
		return usagef("--faults none: alone")
	}
	if !cmd.Flags().Changed("seed") {
		c.Seed = uint64(time.Now().UnixNano())
	}
	self, err := os.Executable()
	if err != nil {
		return cannotRun(err)
	}
	c.Program, c.Args = self, []string{os.Args[0], verifyWorkerVerb}
	if v.selfTest {
		return nil
	}
	if v.store, err = v.findOrCreateStore(); err != nil {
		return cannotRun(err)
	}
	if strings.HasPrefix(v.store.url, "mem:") {
		return usagef("mem: is a store inside one process; there is nothing to verify for several")
	}
	return v.chooseFaults()
}

// chooseFaults decides which faults are brought about.
func (v *verification) chooseFaults() error {
	u, err := driver.ParseURL(v.store.url)
	if err != nil {
		return cannotRun(err)
	}
	possible := verify.FaultsOf(u.Scheme)
	switch {
	case len(v.faults) == 0:
		v.config.Faults = possible
	case v.faults[0] != "none":
		for _, f := range v.faults {
			if !slices.Contains(possible, f) {
				return usagef("--faults %s: this store can have %s", f, strings.Join(possible, ", "))
			}
		}
		v.config.Faults = v.faults
	}
	return nil
}

// cannotRun is the error of a run that shows nothing.
func cannotRun(err error) error {
	if c, ok := errors.AsType[*exitError](err); ok && c.code == exitUsage {
		return err
	}
	return &exitError{exitCannotRun, err}
}

func (v *verification) run(ctx context.Context) error {
	signals := catchSignals()
	defer signals.release()
	ctx, stopInterrupts := signals.interrupts(ctx)
	defer stopInterrupts()
	if v.selfTest {
		return v.runSelfTest(ctx)
	}
	page, err := v.createReport()
	if err != nil {
		return cannotRun(err)
	}
	defer page.discard()
	first, err := v.openStore(ctx, v.store) // for its errors
	if err != nil {
		return cannotRun(err)
	}
	closeClient(first)
	v.config.Store = v.store.url
	v.config.Most = mostAttempts
	v.config.Calm = true
	v.config.Prefix = v.prefix
	if v.prefix == "" {
		v.config.Prefix = "pawl-verify/" + rand.Text()[:12] + "/"
	}
	begun := time.Now()
	result, err := v.measure(ctx)
	if i, ok := errors.AsType[interrupted](context.Cause(ctx)); ok {
		return &exitError{code: exitSignal + int(i.sig)}
	}
	if err != nil {
		if e, ok := errors.AsType[*pawl.Error](err); ok {
			err = e.Err
		}
		return cannotRun(fmt.Errorf("store %s: %w", v.store.shown, err))
	}
	return v.conclude(result, page.write(v, begun, result))
}

// conclude prints the result of a run, also if its report could not be written, and
// returns the error with its exit code.
func (v *verification) conclude(r *verify.Result, reportErr error) error {
	if err := v.showResult(r); err != nil { // 0 and 1 are verdicts
		return cannotRun(err)
	}
	switch {
	case !r.Report.Holds():
		return &exitError{exitViolated, reportErr}
	case reportErr != nil:
		return cannotRun(reportErr)
	}
	return nil
}

// measure runs verify with a progress bar.
func (v *verification) measure(ctx context.Context) (*verify.Result, error) {
	var mu sync.Mutex // guards counts
	var counts verify.Counts
	c := v.config
	c.Progress = func(n verify.Counts) {
		mu.Lock()
		defer mu.Unlock()
		counts = n
	}
	begun := time.Now()
	bar := v.progress(func() (string, float64) {
		mu.Lock()
		defer mu.Unlock()
		spent := time.Since(begun)
		left := "checking"
		if spent < c.Length {
			left = claimview.Brief((c.Length - spent).Round(time.Second)) + " to go"
		}
		return fmt.Sprintf("%s, %s operations, %d faults, %d losses", left, thousands(counts.Operations), counts.FaultsInAll, counts.Losses),
			float64(spent) / float64(c.Length)
	})
	defer bar.close()
	return verify.Run(ctx, c)
}
