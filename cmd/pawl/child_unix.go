//go:build unix

package main

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// defaultPath is searched for commands if PATH is not set.
const defaultPath = "/usr/local/bin:/usr/bin:/bin"

// caughtSignals are the signals that terminate a program or that it may handle.
// Signals that stop a process are not caught: stopping pawl also stops renewing the
// lock.
var caughtSignals = []os.Signal{
	syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM,
	syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGALRM, syscall.SIGWINCH, syscall.SIGCONT,
}

// A child is the command and its descendants. A guardian process sits between pawl
// and the command: it kills them all if pawl is killed, or is stopped until its
// lock expires.
type child struct {
	processTree
	conn        *guardianConn
	done        chan syscall.WaitStatus
	ended       chan struct{} // closed before done is sent
	received    chan receivedSignal
	syncReplies chan int64  // numbers of syncs that the guardian has answered: it has reported all signals received before
	lastSync    int64       // number of the last sync; owned by forwardSignals
	survived    bool        // part of the command could not be killed; read after done
	killedLate  atomic.Bool // the guardian killed the command because it did not learn of a later deadline in time
}

// start starts the command. The guardian kills it at until, unless setDeadline
// changes that; a zero until means no deadline. Before it starts the command, it calls
// warn with what of the command could not be ended here, if anything.
//
// With a terminal, the command stays in pawl's process group, so that Ctrl-C
// reaches it exactly once, from the terminal, and so that it can read from the
// terminal. Without a terminal, it gets its own group, which pawl signals. The
// guardian is in pawl's group with a terminal, to notice signals that are sent to
// the whole group, and otherwise alone in its own group, to survive signals that
// end pawl's.
func start(cmd *exec.Cmd, live *os.File, ignored []syscall.Signal, until time.Time, warn func(unreachable string)) (*child, error) {
	c := &child{
		processTree: processTree{ownGroup: !hasTerminal(), preexisting: childrenNow(), cgroup: makeCgroup()},
		done:        make(chan syscall.WaitStatus, 1), ended: make(chan struct{}),
		received: make(chan receivedSignal, 16), syncReplies: make(chan int64, 16),
	}
	if what := c.unreachable(adoptOrphans()); what != "" {
		warn(what)
	}
	err := c.startCommand(cmd, live, ignored, until)
	if err != nil {
		c.cgroup.remove()
		return nil, err
	}
	go c.forwardSignals() // ends with the command
	return c, nil
}

// startCommand starts the guardian and returns when that has started the command.
func (c *child) startCommand(cmd *exec.Cmd, live *os.File, ignored []syscall.Signal, until time.Time) error {
	near, far, err := newGuardianConn()
	if err != nil {
		return err
	}
	c.conn = near
	if !until.IsZero() {
		c.setDeadline(until) // now, because pawl may be stopped right after the command has started
	}
	if err := c.startGuardian(cmd, far, live, ignored); err != nil {
		return err
	}
	started := make(chan error, 2)
	go c.receiveFromGuardian(started) // ends with the guardian
	return <-started
}

// startGuardian starts the guardian with the far end of the connection. It closes
// far here: only the guardian may have it open, or pawl would not see the
// guardian's end.
func (c *child) startGuardian(cmd *exec.Cmd, far, live *os.File, ignored []syscall.Signal) error {
	defer far.Close()
	inherited, err := inheritable(far)
	if err != nil {
		return err
	}
	defer inherited.Close()
	if live != nil {
		if live, err = inheritable(live); err != nil {
			return err
		}
		defer live.Close()
	}
	program, err := ownExecutable()
	if err != nil {
		return err
	}
	g := exec.Command(program)
	g.Args = append(c.guardianArgs(inherited, ignored), append([]string{cmd.Path}, cmd.Args...)...)
	g.Env, g.Stdin, g.Stdout, g.Stderr = cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr
	g.SysProcAttr = &syscall.SysProcAttr{Setpgid: c.ownGroup}
	if err := g.Start(); err != nil {
		return fmt.Errorf("guardian: %w", err)
	}
	c.guardian = g.Process.Pid
	return nil
}

// ownExecutable returns the path of the running program, even if its file was
// replaced since.
func ownExecutable() (string, error) {
	path, err := os.Executable()
	if now, gone := os.Stat(path); err == nil {
		if we, unknown := os.Stat("/proc/self/exe"); unknown == nil && (gone != nil || !os.SameFile(now, we)) {
			return "/proc/self/exe", nil
		}
		return path, nil
	}
	return exec.LookPath(os.Args[0]) // without /proc
}

// inheritable returns a copy of f for child processes, under an unused number:
// descriptors 3 and up may belong to the caller.
func inheritable(f *os.File) (*os.File, error) {
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD, 100)
	if err == unix.EINVAL { // beyond the limit of open files
		fd, err = unix.FcntlInt(f.Fd(), unix.F_DUPFD, 10)
	}
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), f.Name()), nil
}

// receiveFromGuardian handles the guardian's messages until it ends.
func (c *child) receiveFromGuardian(started chan<- error) {
	end := make(chan syscall.WaitStatus, 1)
	go func() { end <- waitChild(c.guardian, nil) }() // received below; reaps orphans meanwhile
	var status *syscall.WaitStatus
	c.conn.receive(func(word string, n int64) {
		switch word {
		case "started":
			c.process = c.conn.commandWith(int(n))
			started <- nil
		case "failed":
			started <- syscall.Errno(n)
		case "signal":
			c.receive(receivedSignal{syscall.Signal(n), atGuardian})
		case "synced":
			select {
			case c.syncReplies <- n:
			default: // only the last reply matters
			}
		case "stopped":
			c.stopWithCommand(syscall.Signal(n))
		case "late":
			c.killedLate.Store(true)
		case "ended":
			status = new(syscall.WaitStatus(n))
		}
	})
	ended := <-end
	c.conn.Close()
	close(c.ended)
	if c.pid == 0 { // the command did not start, or the guardian died before reporting it
		processTree{guardian: c.guardian, preexisting: c.preexisting}.killAll()
		started <- guardianEnded(ended) // unread if the failure was already reported
		return
	}
	if status == nil { // the guardian was killed, and the command with it
		c.survived = !c.killAll()
		status = new(syscall.WaitStatus(syscall.SIGKILL))
	}
	c.done <- *status
}

// guardianEnded returns the error for a guardian that ended before the command
// started. A signal that ended it was probably sent to the whole group.
func guardianEnded(status syscall.WaitStatus) error {
	if status.Signaled() {
		return &exitError{code: statusCode(status)}
	}
	return fmt.Errorf("guardian: ended with %d", statusCode(status))
}

// stopWithCommand stops pawl when the terminal has stopped the command, which is in
// the same group, for reading or writing in the background. The calling shell only
// sees pawl, and only resumes what has stopped.
func (c *child) stopWithCommand(sig syscall.Signal) {
	if !c.ownGroup && (sig == syscall.SIGTTOU || sig == syscall.SIGTTIN) {
		_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
	}
}

// killGuardian kills a guardian that hangs instead of reporting the command's end.
func (c *child) killGuardian() { _ = syscall.Kill(c.guardian, syscall.SIGKILL) }

// finish ends what is left of the command's processes if killAll says so, and reports
// whether some could not be ended.
func (c *child) finish(killAll bool) (survived bool) {
	if killAll && !c.survived {
		c.survived = !c.killAll()
	}
	c.cgroup.remove()
	return c.survived
}

// setDeadline makes the guardian kill the command at t, unless it gets a later
// deadline before: if pawl is stopped or stalls, the lock passes to another holder
// at t.
func (c *child) setDeadline(t time.Time) {
	now := uptime() // read before time.Until: if pawl is stopped in between, the deadline is early, not late
	_ = c.conn.send("deadline", now+int64(time.Until(t)))
}

func statusCode(status syscall.WaitStatus) int {
	if status.Signaled() {
		return exitSignal + int(status.Signal())
	}
	return status.ExitStatus()
}

// endedBySignal reports whether a signal ended the command.
func endedBySignal(status syscall.WaitStatus) bool { return status.Signaled() }

// guardianArgs returns the guardian's command line, except the command.
func (c *child) guardianArgs(link *os.File, ignored []syscall.Signal) []string {
	var numbers []string
	for _, n := range ignored {
		numbers = append(numbers, strconv.Itoa(int(n)))
	}
	return []string{os.Args[0], guardianVerb, strconv.Itoa(int(link.Fd())), strconv.FormatBool(c.ownGroup), strings.Join(numbers, ","), c.cgroup.name()}
}

// guardianVerb is internal: pawl starts itself with it.
const guardianVerb = "guardian"
