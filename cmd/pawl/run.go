package main

import (
	"context"
	"errors"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pawl-go/pawl"
)

// A job is one pawl run: its flags, and what comes of them.
type job struct {
	*app
	now       bool // -n
	wait      time.Duration
	busyCode  int
	shared    bool
	slots     int
	also      []string
	ttl       time.Duration
	killAfter time.Duration
	onLost    string
	eventsTo  string
	reason    string
	shell     string
	quiet     bool
	verbose   bool

	verb   string
	name   string
	line   string // of the store that is stood in, by its name
	value  string // of a candidate
	argv   []string
	waits  bool // -w was given
	lasts  bool // --ttl was given
	me     holder
	events *events
	store  store
	stdout *os.File // of the command; nil: ours

	words   clerk       // what is said from the first moment of the wait on
	unsaid  []string    // of words: lines that wait for the terminal
	running atomic.Bool // the command is there
	screen  screen
}

func (a *app) runCommand() *cobra.Command {
	j := &job{app: a, verb: "run"}
	cmd := &cobra.Command{
		Use:   "run [flags] NAME [--] COMMAND…",
		Short: "Run a command while holding a lock",
		Long: `run waits for the lock NAME, runs COMMAND, and gives the lock back when it ends.
Flags go before NAME; everything after it belongs to the command.

The exit code is the command's own, or 128+n if signal n ended it. Otherwise:
  75  not acquired (-E changes it)     79  lost while the command ran
  69  store unreachable                77  store refused us
  64  usage                            78  bad store URL
  126 command not executable           127 command not found

The command finds PAWL_LOCK_NAME, PAWL_LOCK_TOKEN (give it to whatever the command
changes, and have it refuse a smaller one) and PAWL_LOCK_OWNER in its environment.
PAWL_LOCK_OWNERS names the owners of every pawl around it, outermost first: a pawl
inside the command refuses to wait for one of them, since that waits for the command.
A process that is to outlive the command unsets both.`,
		Example: `  pawl run deploy -- ./deploy.sh
  pawl run -n -E 0 nightly -- /usr/local/bin/report
  pawl run -w 10m --reason "release 4.2" deploy -- make deploy
  pawl run --slots 4 gpu -- python train.py
  pawl run -c 'dump | gzip > out.gz' backup`,
		DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			j.waits, j.lasts = cmd.Flags().Changed("wait"), cmd.Flags().Changed("ttl")
			if j.slots < 1 && cmd.Flags().Changed("slots") { // a script that has counted to none
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
	f.BoolVar(&j.shared, "shared", false, "share the lock with others who ask for the same")
	f.IntVar(&j.slots, "slots", 0, "a lock that so many may hold at a time")
	f.StringArrayVar(&j.also, "also", nil, "a further lock `NAME` to hold; may be repeated")
	return cmd
}

// flags are those of every verb that runs a command.
func (j *job) flags(f *pflag.FlagSet) {
	f.SetInterspersed(false)
	f.BoolVarP(&j.now, "no-wait", "n", false, "do not wait: exit 75 if the lock is held")
	durationVar(f, &j.wait, "wait", "w", 0, "wait at most so long, such as 10m; a number alone is seconds (default: for ever)")
	f.IntVarP(&j.busyCode, "busy-code", "E", exitBusy, "exit code when the lock was not acquired")
	durationVar(f, &j.ttl, "ttl", "", 30*time.Second, "how long the lock outlives us if we die or are cut off")
	durationVar(f, &j.killAfter, "kill-after", "", 5*time.Second, "time between TERM and KILL when the lock is being lost")
	f.StringVar(&j.onLost, "on-lost", "kill", "what to do to the command when the lock is lost: kill, term or ignore")
	f.StringVar(&j.eventsTo, "events", "", "append what happens to a `FILE`, one JSON object a line")
	f.StringVar(&j.reason, "reason", "", "why, for whoever is waiting for us")
	f.StringVarP(&j.shell, "command", "c", "", "run a `STRING` with the shell in place of a command")
	f.BoolVarP(&j.quiet, "quiet", "q", false, "say nothing but errors")
	f.BoolVarP(&j.verbose, "verbose", "v", false, "say when the lock is acquired and released")
}

// check refuses a command line that makes no sense, before anything happens.
func (j *job) check(args []string) error {
	if len(args) == 0 {
		return usagef("no lock name: pawl %s [flags] NAME -- COMMAND", j.verb)
	}
	j.name, j.line, j.argv = args[0], args[0], args[1:]
	if len(j.argv) > 0 && j.argv[0] == "--" {
		j.argv = j.argv[1:]
	} else if len(j.argv) > 0 && strings.HasPrefix(j.argv[0], "-") {
		return usagef("%s: flags go before the lock name: pawl %s [flags] %s -- COMMAND", j.argv[0], j.verb, operand(j.name))
	}
	switch {
	case j.shell != "" && len(j.argv) > 0:
		return usagef("a command and -c: one of them")
	case j.shell != "":
		j.argv = []string{shellPath(), "-c", j.shell}
	case len(j.argv) == 0:
		return usagef("no command to run: pawl %s [flags] %s -- COMMAND", j.verb, operand(j.name))
	}
	switch {
	case j.now && j.waits:
		return usagef("-n and -w: one of them")
	case j.wait < 0:
		return usagef("-w %v: not a time to wait", j.wait)
	case j.busyCode < 0 || j.busyCode > 255:
		return usagef("-E %d: an exit code is 0 to 255", j.busyCode)
	case j.slots > 0 && j.shared, (j.slots > 0 || j.shared) && len(j.also) > 0:
		return usagef("--slots, --shared and --also do not go together")
	case j.killAfter < 0:
		return usagef("--kill-after %v: not a time", j.killAfter)
	case j.onLost != "kill" && j.onLost != "term" && j.onLost != "ignore":
		return usagef("--on-lost %s: kill, term or ignore", j.onLost)
	}
	return nil
}

// settle finds the store, and the life of the lock that it or --ttl asks for.
func (j *job) settle() (err error) {
	if j.store, err = j.chosen(); err != nil {
		return err
	}
	if ttl := j.store.ttl(); ttl != 0 && !j.lasts {
		j.ttl = ttl
	}
	switch {
	case strings.HasPrefix(j.store.url, "mem:"):
		return usagef("mem: is a store inside one process; nobody else could see the lock")
	case j.ttl > 365*24*time.Hour:
		return usagef("--ttl %v: at most a year; a lock is renewed for as long as the command runs", j.ttl)
	case j.ttl <= 2*j.killAfter:
		return usagef("--ttl %v must be more than twice --kill-after %v, or the command could not be stopped in time", j.ttl, j.killAfter)
	}
	return nil
}

// run takes the lock, runs the command and gives the lock back.
func (j *job) run(ctx context.Context) error {
	if err := j.settle(); err != nil {
		return err
	}
	program, err := j.prepare()
	if err != nil {
		return err
	}
	defer j.words.wait()
	defer j.events.close()
	signals := catch()
	outliveReaders()
	defer signals.release()

	c, lease, err := j.obtain(ctx, signals)
	defer leave(c)
	if err != nil {
		return j.notAcquired(err)
	}
	code, err := j.under(lease, c, program, signals)
	return j.finish(lease, code, err)
}

// prepare finds the command, and where events go.
func (j *job) prepare() (program string, err error) {
	if program, err = find(j.argv[0]); err != nil {
		return "", err
	}
	j.me = self(j.argv[0], j.reason)
	if j.shell != "" {
		j.me = self(firstCommand(j.shell), j.reason)
	}
	j.events, err = openEvents(j.eventsTo)
	return program, err
}

// notAcquired says why there is no lock, and what to do next.
func (j *job) notAcquired(err error) error {
	if i, ok := errors.AsType[interrupted](err); ok {
		j.events.add(event{Event: "interrupted", Name: j.name, Error: i.Error()})
		return &coded{code: exitSignal + int(i.sig)}
	}
	if !errors.Is(err, pawl.ErrHeld) {
		err = j.explain(err)
		j.events.add(event{Event: "failed", Name: j.name, Error: oneLine(err)})
		return err
	}
	j.events.add(event{Event: "busy", Name: j.name, Error: oneLine(err)})
	if !j.quiet {
		j.say("%q is busy: %s", j.name, j.busy(err))
		next := "wait for it with -w 10m"
		if j.waits {
			next = "waited " + brief(j.wait)
		}
		j.say("command not run; %s; look with: %s inspect %s; store %s", next, j.calling(j.store), operand(j.line), j.store.shown)
	}
	return &coded{code: j.busyCode}
}

func (j *job) busy(err error) string {
	h, ok := errors.AsType[*pawl.HeldError](err)
	if !ok || h.Holder == nil {
		return "held by somebody else"
	}
	who := holderOf(h.Holder.Note)
	s := "held by " + who.String()
	if h.Holder.Held {
		s += " for " + brief(h.Holder.Since)
	}
	if who.User != "" && who.Reason != "" {
		s += ", reason: " + who.Reason
	}
	return s
}

// finish gives the lock back and decides on the exit code.
func (j *job) finish(lease *pawl.Lease, code int, err error) error {
	lost := errors.Is(err, pawl.ErrLost)
	uerr := lease.Unlock()
	switch {
	case lost, errors.Is(uerr, pawl.ErrLost):
		if !lost {
			j.say("%q was lost while the command ran", j.name)
		}
		j.events.add(event{Event: "exit", Name: j.name, Code: new(exitLost)})
		return &coded{code: exitLost}
	case err != nil:
		j.events.add(event{Event: "failed", Name: j.name, Code: new(codeOf(err)), Error: oneLine(err)})
		return err
	case uerr != nil && !j.quiet:
		j.say("%q: %s; it frees itself within %v", j.name, oneLine(uerr), j.ttl)
	case j.verbose:
		j.say("released %q", j.name)
	}
	j.events.add(event{Event: "released", Name: j.name, Code: &code})
	return &coded{code: code}
}

// environment is the command's: ours, and what it may want to know of the lock.
func (j *job) environment(lease *pawl.Lease) []string {
	drop := map[string]bool{"PAWL_LOCK_NAME": true, "PAWL_LOCK_TOKEN": true, ownerVar: true, ownersVar: true}
	var env []string
	for _, v := range os.Environ() {
		if key, _, _ := strings.Cut(v, "="); !drop[key] {
			env = append(env, v)
		}
	}
	env = append(env,
		"PAWL_LOCK_NAME="+j.name,
		"PAWL_LOCK_TOKEN="+strconv.FormatUint(j.own(lease).Token(), 10),
		ownerVar+"="+j.own(lease).ID(),
		ownersVar+"="+ownersIn(lease))
	return j.store.nest(env)
}

// own is the lease of NAME alone. A lease of several names has the token and the
// id of the one that sorts first, which may be one of --also.
func (j *job) own(lease *pawl.Lease) *pawl.Lease {
	for _, part := range lease.Parts() {
		if part.Name() == j.name {
			return part
		}
	}
	return lease
}
