package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/cmd/pawl/internal/claimview"
	"github.com/pawl-go/pawl/once"
)

// A onceJob is one run of pawl once: a job whose result is kept.
type onceJob struct {
	job
	replay bool
	any    bool
	hold   bool
	forget bool
	keep   time.Duration
}

// A result is what is stored about a command that ran.
type result struct {
	Code   int    `json:"code"`
	Out    []byte `json:"out,omitempty"`
	Output string `json:"output"` // "kept", or why it was not
}

const (
	outputKept   = "kept"
	outputLarge  = "was too large to be kept"
	outputNone   = "was not kept; the command ran without --replay"
	outputOpen   = "was still being written when the command ended, and not kept"
	outputUnread = "was not read to its end, and not kept"
)

func (a *app) onceCommand() *cobra.Command {
	o := &onceJob{job: job{app: a, verb: "once"}}
	cmd := &cobra.Command{
		Use:   "once [flags] KEY [--] COMMAND…",
		Short: "Run a command unless it has succeeded before",
		Long: `once runs COMMAND unless it has succeeded before under KEY; then it does nothing and
exits with 0. If another process is running it, once waits for that one, and shows
after a moment which it is. A command that failed is run again by the next once with
the same KEY.

If the machine crashes while COMMAND runs, its outcome is unknown: the next once runs
it again, or with --hold refuses with exit code 76 until somebody has checked what
happened and has used --forget.

With --replay, the standard output of the command is kept too, and printed by every later
once --replay that does not run it. A run without --replay keeps none, and neither does
one with more than 40 KiB; then a later --replay says so and prints nothing.

Flags and exit codes are those of pawl run, and 74 if standard output could not be written.
In the command's environment, PAWL_LOCK_NAME is KEY, and PAWL_LOCK_TOKEN is larger than in
every run before.`,
		Example: `  pawl once invoice-2026-11 -- ./send-invoices 2026-11
  pawl once --replay --keep 720h build-4f2a -- ./build
  pawl once --hold payout-7 -- ./pay 7`,
		DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.waitGiven, o.ttlGiven = cmd.Flags().Changed("wait"), cmd.Flags().Changed("ttl")
			if o.forget {
				return o.forgetKey(cmd.Context(), args)
			}
			if err := o.check(args); err != nil {
				return err
			}
			if o.keep <= 0 {
				return usagef("--keep %v: not a time to keep something for", o.keep)
			}
			return o.run(cmd.Context())
		},
	}
	f := cmd.Flags()
	o.flags(f)
	f.BoolVar(&o.replay, "replay", false, "keep the standard output, and print what an earlier run with --replay has kept")
	f.BoolVar(&o.any, "any", false, "store every exit code, not only 0, and replay it")
	f.BoolVar(&o.hold, "hold", false, "do not run again after an interrupted run")
	f.BoolVar(&o.forget, "forget", false, "forget KEY, so that its command may run again")
	durationVar(f, &o.keep, "keep", "", 24*time.Hour, "how long a success is remembered")
	return cmd
}

func (o *onceJob) forgetKey(ctx context.Context, args []string) error {
	if len(args) != 1 {
		return usagef("pawl once --forget KEY")
	}
	seen, st, err := o.openReadOnly(ctx, false) // does not create a missing store
	if err != nil {
		return err
	}
	defer closeClient(seen)
	if _, err := os.Stat(st.local); st.local != "" && errors.Is(err, fs.ErrNotExist) {
		return nil // a missing store has nothing to forget
	}
	c, err := o.openForWriting(ctx, seen, st)
	if err != nil {
		return err
	}
	defer closeClient(c)
	return once.Forget(ctx, c, args[0])
}

// run runs the command, or replays its stored result.
func (o *onceJob) run(ctx context.Context) error {
	if err := o.resolveStore(); err != nil {
		return err
	}
	program, err := o.prepare()
	if err != nil {
		return err
	}
	defer o.messages.wait()
	defer o.events.close()
	signals := catchSignals()
	failOnBrokenPipe()
	defer signals.release()
	wait, stop := signals.interrupts(ctx)
	stopInterrupts := sync.OnceFunc(stop)
	defer stopInterrupts()
	c, err := o.openStore(wait, o.store, pawl.WithTTL(o.ttl), pawl.WithNote(o.me.Note()), pawl.WithObserver(o))
	defer closeClient(c)
	if o.lockName = once.LockName(o.name); err == nil {
		err = o.deadlock(wait, c)
	}
	if err != nil {
		stopInterrupts()
		if i, ok := errors.AsType[interrupted](context.Cause(wait)); ok {
			err = i
		}
		return o.notAcquired(err)
	}
	display, waited := o.showWait(wait, c, true), ""
	hide := sync.OnceFunc(func() { waited = display.close() })
	defer hide()
	ran := false
	got, err := once.Do(wait, c, o.name, func(work context.Context) (result, error) {
		stopInterrupts() // from here on the command receives the signals
		if hide(); waited != "" {
			o.say("acquired %q after %s (token %d)", o.name, waited, once.Token(work))
		}
		if i, ok := errors.AsType[interrupted](context.Cause(wait)); ok {
			return result{}, i
		}
		ran = true
		return o.perform(once.Lease(work), c, program, signals)
	}, o.options()...)
	stopInterrupts()
	if hide(); waited != "" && !ran && err == nil {
		o.say("%q was done by another after %s", o.name, waited)
	}
	if i, ok := errors.AsType[interrupted](context.Cause(wait)); ok && !ran {
		err = i
	}
	return o.report(got, ran, err)
}

// Observe records a wait. The client calls it on the goroutine that waits, which
// also runs the command.
func (o *onceJob) Observe(e pawl.Event) {
	if e.Kind == pawl.Waiting {
		o.events.add(event{Event: "waiting", Name: o.name})
	}
}

func (o *onceJob) options() []once.Option {
	opts := []once.Option{once.WithKeep(o.keep)}
	if o.hold {
		opts = append(opts, once.WithHold())
	}
	switch {
	case o.now:
		opts = append(opts, once.WithWait(0))
	case o.waitGiven:
		opts = append(opts, once.WithWait(o.wait))
	}
	return opts
}

// A failure is a command that ended with an exit code that is not stored.
type failure int

func (f failure) Error() string { return fmt.Sprintf("the command ended with %d", int(f)) }

// perform runs the command under the lease of once.
func (o *onceJob) perform(lease *pawl.Lease, c *pawl.Client, program string, signals *signals) (result, error) {
	o.events.add(event{Event: "acquired", Name: o.name, Token: claimview.Token(lease.Token())})
	got := result{Output: outputNone}
	var heard *outputCapture
	if o.replay {
		var err error
		if heard, err = captureOutput(os.Stdout); err != nil {
			return got, err
		}
		o.stdout = heard.in
	}
	code, err := o.runUnderLease(lease, c, program, signals)
	if heard != nil {
		got.Out, got.Output = heard.finish(signals.ch)
	}
	got.Code = code
	switch {
	case err != nil:
		return got, err
	case code != 0 && !(o.any && code < exitSignal):
		return got, failure(code)
	}
	return got, nil
}

// report prints the outcome and returns the exit code.
func (o *onceJob) report(got result, ran bool, err error) error {
	if f, ok := errors.AsType[failure](err); ok && !errors.Is(err, pawl.ErrLost) {
		o.events.add(event{Event: "released", Name: o.name, Code: new(int(f))})
		return &exitError{code: int(f)}
	}
	switch {
	case errors.Is(err, pawl.ErrLost):
		o.events.add(event{Event: "exit", Name: o.name, Code: new(exitLost)})
		o.sayUnlessQuiet("%q: what came of the command was not kept: the lock was lost", o.name)
		return &exitError{code: exitLost}
	case errors.Is(err, once.ErrUnknownOutcome):
		o.events.add(event{Event: "failed", Name: o.name, Error: oneLine(err)})
		return &exitError{exitUnknown, fmt.Errorf("%w; look what it has done, then: %s once --forget %s", err, o.pawlCommand(o.store), operand(o.name))}
	case err != nil:
		if h, ok := errors.AsType[*pawl.HeldError](err); ok && h.Holder != nil {
			o.lockName = h.Holder.Name // the name that pawl inspect takes
		}
		return o.notAcquired(err)
	case ran:
		o.events.add(event{Event: "released", Name: o.name, Code: &got.Code})
		return &exitError{code: got.Code}
	}
	o.events.add(event{Event: "replayed", Name: o.name, Code: &got.Code})
	if o.verbose {
		o.say("%q was done before", o.name)
	}
	if o.replay && got.Output != outputKept {
		o.say("%q was done before; its output %s", o.name, got.Output)
	} else if o.replay {
		if err := o.printRaw(got.Out); errors.Is(err, syscall.EPIPE) {
			return &exitError{code: exitSignal + int(syscall.SIGPIPE)} // as if SIGPIPE had not been caught
		} else if err != nil {
			return err
		}
	}
	return &exitError{code: got.Code}
}
