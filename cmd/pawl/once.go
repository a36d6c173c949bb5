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
	"github.com/pawl-go/pawl/once"
)

// A single is one pawl once: a job, and what is to be kept of it.
type single struct {
	job
	replay bool
	any    bool
	hold   bool
	forget bool
	keep   time.Duration
}

// A result is what is kept of a command.
type result struct {
	Code   int    `json:"code"`
	Out    []byte `json:"out,omitempty"`
	Output string `json:"output"` // kept, or why it is not
}

const (
	outputKept   = "kept"
	outputLarge  = "was too large to be kept"
	outputNone   = "was not kept; the command ran without --replay"
	outputOpen   = "was still being written when the command ended, and not kept"
	outputUnread = "was not read to its end, and not kept"
)

func (a *app) onceCommand() *cobra.Command {
	s := &single{job: job{app: a, verb: "once"}}
	cmd := &cobra.Command{
		Use:   "once [flags] KEY [--] COMMAND…",
		Short: "Run a command unless it has succeeded before",
		Long: `once runs COMMAND unless it has succeeded before under KEY; then it does nothing and
exits with 0. If another runs it at this moment, once waits for it, and says after a
moment who that is. A command that
fails may be tried again, by the next once, with the same KEY.

If the machine dies while COMMAND runs, nobody knows how far it came: the next once
runs it again, or with --hold refuses with exit code 76 until somebody has looked
and says so with --forget.

Flags and exit codes are those of pawl run. In the command's environment,
PAWL_LOCK_NAME is KEY, and PAWL_LOCK_TOKEN is larger than in every run before.`,
		Example: `  pawl once invoice-2026-11 -- ./send-invoices 2026-11
  pawl once --replay --keep 720h build-4f2a -- ./build
  pawl once --hold payout-7 -- ./pay 7`,
		DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			s.waits, s.lasts = cmd.Flags().Changed("wait"), cmd.Flags().Changed("ttl")
			if s.forget {
				return s.forgetKey(cmd.Context(), args)
			}
			if err := s.check(args); err != nil {
				return err
			}
			if s.keep <= 0 {
				return usagef("--keep %v: not a time to keep something for", s.keep)
			}
			return s.run(cmd.Context())
		},
	}
	f := cmd.Flags()
	s.flags(f)
	f.BoolVar(&s.replay, "replay", false, "repeat the standard output of the run that succeeded")
	f.BoolVar(&s.any, "any", false, "remember the command's exit code whatever it is, and repeat it")
	f.BoolVar(&s.hold, "hold", false, "after a run that did not come to its end, do not run again")
	f.BoolVar(&s.forget, "forget", false, "forget KEY, so that its command may run again")
	durationVar(f, &s.keep, "keep", "", 24*time.Hour, "for how long a success is remembered")
	return cmd
}

func (s *single) forgetKey(ctx context.Context, args []string) error {
	if len(args) != 1 {
		return usagef("pawl once --forget KEY")
	}
	seen, st, err := s.look(ctx, false) // makes no store where there is none
	if err != nil {
		return err
	}
	defer leave(seen)
	if _, err := os.Stat(st.local); st.local != "" && errors.Is(err, fs.ErrNotExist) {
		return nil // nothing was ever done there
	}
	c, err := s.toChange(ctx, seen, st)
	if err != nil {
		return err
	}
	defer leave(c)
	return once.Forget(ctx, c, args[0])
}

// run runs the command, or repeats what came of it.
func (s *single) run(ctx context.Context) error {
	if err := s.settle(); err != nil {
		return err
	}
	program, err := s.prepare()
	if err != nil {
		return err
	}
	defer s.words.wait()
	defer s.events.close()
	signals := catch()
	outliveReaders()
	defer signals.release()
	wait, calm := signals.interrupts(ctx)
	calmed := false
	settle := func() {
		if !calmed {
			calmed = true
			calm()
		}
	}
	defer settle()
	c, err := s.open(wait, s.store, pawl.WithTTL(s.ttl), pawl.WithNote(s.me.note()), pawl.WithObserver(s))
	defer leave(c)
	if s.line = once.LockName(s.name); err == nil {
		err = s.deadlock(wait, c)
	}
	if err != nil {
		settle()
		if i, ok := errors.AsType[interrupted](context.Cause(wait)); ok {
			err = i
		}
		return s.notAcquired(err)
	}
	view, waited := s.view(wait, c, true), ""
	hide := sync.OnceFunc(func() { waited = view.close() })
	defer hide()
	ran := false
	got, err := once.Do(wait, c, s.name, func(work context.Context) (result, error) {
		settle() // from here on signals are the command's
		if hide(); waited != "" {
			s.say("acquired %q after %s (token %d)", s.name, waited, once.Token(work))
		}
		if i, ok := errors.AsType[interrupted](context.Cause(wait)); ok {
			return result{}, i
		}
		ran = true
		return s.perform(once.Lease(work), c, program, signals)
	}, s.options()...)
	settle()
	if hide(); waited != "" && !ran && err == nil {
		s.say("%q was done by another after %s", s.name, waited)
	}
	if i, ok := errors.AsType[interrupted](context.Cause(wait)); ok && !ran {
		err = i
	}
	return s.report(got, ran, err)
}

// Observe notes a wait. It is told by the goroutine that waits, which is the one that
// runs the command.
func (s *single) Observe(e pawl.Event) {
	if e.Kind == pawl.Waiting {
		s.events.add(event{Event: "waiting", Name: s.name})
	}
}

func (s *single) options() []once.Option {
	opts := []once.Option{once.WithKeep(s.keep)}
	if s.hold {
		opts = append(opts, once.WithHold())
	}
	switch {
	case s.now:
		opts = append(opts, once.WithWait(0))
	case s.waits:
		opts = append(opts, once.WithWait(s.wait))
	}
	return opts
}

// failure is a command that ended with a code that is not to be remembered.
type failure int

func (f failure) Error() string { return fmt.Sprintf("the command ended with %d", int(f)) }

// perform runs the command under the lease of its run.
func (s *single) perform(lease *pawl.Lease, c *pawl.Client, program string, signals *signals) (result, error) {
	s.events.add(event{Event: "acquired", Name: s.name, Token: token(lease.Token())})
	got := result{Output: outputNone}
	var heard *listener
	if s.replay {
		var err error
		if heard, err = listen(os.Stdout); err != nil {
			return got, err
		}
		s.stdout = heard.in
	}
	code, err := s.under(lease, c, program, signals)
	if heard != nil {
		got.Out, got.Output = heard.end(signals.ch)
	}
	got.Code = code
	switch {
	case err != nil:
		return got, err
	case code != 0 && !(s.any && code < exitSignal):
		return got, failure(code)
	}
	return got, nil
}

// report says what is to be said, and decides on the exit code.
func (s *single) report(got result, ran bool, err error) error {
	if f, ok := errors.AsType[failure](err); ok && !errors.Is(err, pawl.ErrLost) {
		s.events.add(event{Event: "released", Name: s.name, Code: new(int(f))})
		return &coded{code: int(f)}
	}
	switch {
	case errors.Is(err, pawl.ErrLost):
		s.events.add(event{Event: "exit", Name: s.name, Code: new(exitLost)})
		s.tell("%q: what came of the command was not kept: the lock was lost", s.name)
		return &coded{code: exitLost}
	case errors.Is(err, once.ErrUnknownOutcome):
		s.events.add(event{Event: "failed", Name: s.name, Error: oneLine(err)})
		return &coded{exitUnknown, fmt.Errorf("%w; look what it has done, then: %s once --forget %s", err, s.calling(s.store), operand(s.name))}
	case err != nil:
		if h, ok := errors.AsType[*pawl.HeldError](err); ok && h.Holder != nil {
			s.line = h.Holder.Name // as pawl inspect knows it
		}
		return s.notAcquired(err)
	case ran:
		s.events.add(event{Event: "released", Name: s.name, Code: &got.Code})
		return &coded{code: got.Code}
	}
	s.events.add(event{Event: "replayed", Name: s.name, Code: &got.Code})
	if s.verbose {
		s.say("%q was done before", s.name)
	}
	if s.replay && got.Output != outputKept {
		s.say("%q was done before; its output %s", s.name, got.Output)
	} else if s.replay {
		if err := s.printRaw(got.Out); errors.Is(err, syscall.EPIPE) {
			return &coded{code: exitSignal + int(syscall.SIGPIPE)} // as if nobody had caught it
		} else if err != nil {
			return err
		}
	}
	return &coded{code: got.Code}
}
