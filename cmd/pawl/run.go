package main

import (
	"context"
	"errors"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/cmd/pawl/internal/claimview"
	"github.com/spf13/cobra"
)

func (a *app) runCommand() *cobra.Command {
	j := &job{app: a, verb: "run"}
	cmd := &cobra.Command{
		Use:   "run [flags] NAME [--] COMMAND…",
		Short: "Run a command while holding a lock",
		Long: `run waits for the lock NAME, runs COMMAND, and releases the lock when COMMAND ends.
Flags go before NAME; everything after it belongs to the command.

The exit code is the command's own, or 128+n if signal n ended it. Otherwise:
  75  not acquired (-E changes it)     79  lost while the command ran
  69  store unreachable                77  refused by the store
  64  usage                            78  bad store URL
  126 command not executable           127 command not found

The command's environment has PAWL_LOCK_NAME, PAWL_LOCK_OWNER and PAWL_LOCK_TOKEN:
pass the token to every system that the command changes, and make it reject smaller
tokens. PAWL_LOCK_OWNERS lists the owners of all enclosing pawls, outermost first: a
pawl inside the command refuses to wait for one of them, because that one waits for
the command. A process that outlives the command should unset both.`,
		Example: `  pawl run deploy -- ./deploy.sh
  pawl run -n -E 0 nightly -- /usr/local/bin/report
  pawl run -w 10m --reason "release 4.2" deploy -- make deploy
  pawl run --slots 4 gpu -- python train.py
  pawl run -c 'dump | gzip > out.gz' backup`,
		DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			j.waitGiven, j.ttlGiven = cmd.Flags().Changed("wait"), cmd.Flags().Changed("ttl")
			if j.slots < 1 && cmd.Flags().Changed("slots") { // for example a script whose count is zero
				return usagef("--slots %d: not a number of holders", j.slots)
			}
			if err := j.check(args); err != nil {
				return err
			}
			return j.run(cmd.Context())
		},
	}
	f := cmd.Flags()
	j.flags(f)
	f.BoolVar(&j.shared, "shared", false, "share the lock with other holders that use --shared")
	f.IntVar(&j.slots, "slots", 0, "how many may hold the lock at a time")
	f.StringArrayVar(&j.also, "also", nil, "a further lock `NAME` to hold; may be repeated")
	return cmd
}

// run acquires the lock, runs the command and releases the lock.
func (j *job) run(ctx context.Context) error {
	if err := j.resolveStore(); err != nil {
		return err
	}
	program, err := j.prepare()
	if err != nil {
		return err
	}
	defer j.messages.wait()
	defer j.events.close()
	signals := catchSignals()
	failOnBrokenPipe()
	defer signals.release()

	c, lease, err := j.openAndAcquire(ctx, signals)
	defer closeClient(c)
	if err != nil {
		return j.notAcquired(err)
	}
	code, err := j.runUnderLease(lease, c, program, signals)
	return j.finish(lease, code, err)
}

// prepare finds the program and opens the event file.
func (j *job) prepare() (program string, err error) {
	if program, err = find(j.argv[0]); err != nil {
		return "", err
	}
	j.me = thisProcess(j.argv[0], j.reason)
	if j.shell != "" {
		j.me = thisProcess(firstCommand(j.shell), j.reason)
	}
	wait := firstContact
	switch {
	case j.now:
		wait = 0
	case j.waitGiven:
		wait = min(wait, j.wait)
	}
	j.events, err = openEvents(j.eventsTo, wait)
	return program, err
}

// notAcquired reports why the lock was not acquired, and what to do next.
func (j *job) notAcquired(err error) error {
	if i, ok := errors.AsType[interrupted](err); ok {
		j.events.add(event{Event: "interrupted", Name: j.name, Error: i.Error()})
		return &exitError{code: exitSignal + int(i.sig)}
	}
	if !errors.Is(err, pawl.ErrHeld) {
		err = j.explain(err)
		j.events.add(event{Event: "failed", Name: j.name, Error: oneLine(err)})
		if exitCodeOf(err) == exitBusy { // the store's file is
			return &exitError{j.busyCode, err}
		}
		return err
	}
	j.events.add(event{Event: "busy", Name: j.name, Error: oneLine(err)})
	if !j.quiet {
		j.say("%q is busy: %s", j.name, j.describeHolder(err))
		next := "wait for it with -w 10m"
		if j.waitGiven {
			next = "waited " + claimview.Brief(j.wait)
		}
		j.say("command not run; %s; look with: %s inspect %s; store %s", next, j.pawlCommand(j.store), operand(j.lockName), j.store.shown)
	}
	return &exitError{code: j.busyCode}
}

func (j *job) describeHolder(err error) string {
	h, ok := errors.AsType[*pawl.HeldError](err)
	if !ok || h.Holder == nil {
		return "held by somebody else"
	}
	who := claimview.ParseNote(h.Holder.Note)
	s := "held by " + who.String()
	if h.Holder.Held {
		s += " for " + claimview.Brief(h.Holder.Since)
	}
	if who.User != "" && who.Reason != "" {
		s += ", reason: " + who.Reason
	}
	return s
}

// finish releases the lock and returns the exit code.
func (j *job) finish(lease *pawl.Lease, code int, err error) error {
	lost := errors.Is(err, pawl.ErrLost)
	uerr := lease.Unlock()
	switch {
	case lost, errors.Is(uerr, pawl.ErrLost):
		if !lost {
			j.say("%q was lost while the command ran", j.name)
		}
		j.events.add(event{Event: "exit", Name: j.name, Code: new(exitLost)})
		return &exitError{code: exitLost}
	case err != nil:
		j.events.add(event{Event: "failed", Name: j.name, Code: new(exitCodeOf(err)), Error: oneLine(err)})
		return err
	case uerr != nil && !j.quiet:
		j.say("%q: %s; it frees itself within %v", j.name, oneLine(uerr), j.ttl)
	case j.verbose:
		j.say("released %q", j.name)
	}
	j.events.add(event{Event: "released", Name: j.name, Code: &code})
	return &exitError{code: code}
}
