package main

import (
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/cmd/pawl/internal/claimview"
	"github.com/spf13/pflag"
)

// A job is one run of a command under a lock, with its flags and state.
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

	verb      string
	name      string
	lockName  string // the name of the lock in the store; differs from name for once and elect
	value     string // of a candidate, for elect
	argv      []string
	waitGiven bool // -w was given
	ttlGiven  bool // --ttl was given
	me        claimview.Holder
	events    *events
	store     store
	stdout    *os.File // of the command; nil: inherited

	messages        asyncWriter // messages to the user from the start of the wait on
	pendingMessages []string    // lines that wait for the terminal; owned by messages
	running         atomic.Bool // the command is running
	terminal        terminalState
}

// flags defines the flags of every verb that runs a command.
func (j *job) flags(f *pflag.FlagSet) {
	f.SetInterspersed(false)
	f.BoolVarP(&j.now, "no-wait", "n", false, "do not wait: exit 75 if the lock is held")
	durationVar(f, &j.wait, "wait", "w", 0, "wait at most this long, such as 10m; a number alone is seconds (default: for ever)")
	f.IntVarP(&j.busyCode, "busy-code", "E", exitBusy, "exit code when the lock was not acquired")
	durationVar(f, &j.ttl, "ttl", "", 30*time.Second, "how long the lock stays held if pawl dies or is disconnected")
	durationVar(f, &j.killAfter, "kill-after", "", 5*time.Second, "time between SIGTERM and SIGKILL when the lock is being lost")
	f.StringVar(&j.onLost, "on-lost", "kill", "what to do to the command when the lock is lost: kill, term or ignore")
	f.StringVar(&j.eventsTo, "events", "", "append events to a `FILE`, one JSON object per line; a named pipe must be read from within 10 s, within -w, or at once with -n")
	f.StringVar(&j.reason, "reason", "", "a text that is shown to those who wait for the lock")
	f.StringVarP(&j.shell, "command", "c", "", "run a `STRING` with the shell instead of a command")
	f.BoolVarP(&j.quiet, "quiet", "q", false, "print nothing but errors")
	f.BoolVarP(&j.verbose, "verbose", "v", false, "print when the lock is acquired and released")
}

// check rejects invalid command lines before anything happens.
func (j *job) check(args []string) error {
	if len(args) == 0 {
		return usagef("no lock name: pawl %s [flags] NAME -- COMMAND", j.verb)
	}
	j.name, j.lockName, j.argv = args[0], args[0], args[1:]
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
	case j.now && j.waitGiven:
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

// resolveStore finds the store and determines the TTL from --ttl or the store's
// URL.
func (j *job) resolveStore() (err error) {
	if j.store, err = j.findOrCreateStore(); err != nil {
		return err
	}
	if ttl := j.store.ttl(); ttl != 0 && !j.ttlGiven {
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

// environment returns the command's environment: pawl's own plus the variables
// about the lock.
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
		"PAWL_LOCK_TOKEN="+strconv.FormatUint(j.partOfName(lease).Token(), 10),
		ownerVar+"="+j.partOfName(lease).ID(),
		ownersVar+"="+ownersIn(lease))
	return j.store.addToEnv(env)
}

// partOfName returns the lease of NAME. A lease on several names has the token and
// ID of the name that sorts first, which may be one of --also.
func (j *job) partOfName(lease *pawl.Lease) *pawl.Lease {
	for _, part := range lease.Parts() {
		if part.Name() == j.name {
			return part
		}
	}
	return lease
}

// note returns the note that others see in the line.
func (j *job) note() string {
	if j.verb == "elect" {
		return j.value
	}
	return j.me.Note()
}
