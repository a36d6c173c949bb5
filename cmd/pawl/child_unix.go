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

// defaultPath is where commands are searched for without a PATH.
const defaultPath = "/usr/local/bin:/usr/bin:/bin"

// caught are the signals that end a program or are meant for it. Those that stop one
// are left alone: whoever stops us stops the lock.
var caughtSignals = []os.Signal{
	syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM,
	syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGALRM, syscall.SIGWINCH, syscall.SIGCONT,
}

// A child is the command and whatever it starts, with the guardian between us: a
// process of ours that ends them all if we are killed, or stopped until the lock has
// passed to another.
type child struct {
	processTree
	conn        *guardianConn
	done        chan syscall.WaitStatus
	ended       chan struct{} // closed before done is sent
	received    chan receivedSignal
	syncReplies chan int64  // by its number: the guardian has told of every signal it had when it was asked
	lastSync    int64       // of relay: the last question
	killedLate  atomic.Bool // the guardian has ended the command: it was not told of a later end in time
}

// start starts the command, to be ended at a time unless endBy names another; a zero
// time is none. With a terminal it stays in our process group, so that Ctrl-C reaches
// it once, from the terminal, and it may read; without one it gets a group of its own,
// which we signal. The guardian is in our group with a terminal, to notice what is sent
// to the whole group, and alone in one otherwise, to outlive what ends ours.
func start(cmd *exec.Cmd, live *os.File, ignored []syscall.Signal, until time.Time) (*child, error) {
	c := &child{
		processTree: processTree{ownGroup: !hasTerminal(), preexisting: descendantsOf(os.Getpid(), nil)},
		done:        make(chan syscall.WaitStatus, 1), ended: make(chan struct{}),
		received: make(chan receivedSignal, 16), syncReplies: make(chan int64, 16),
	}
	adoptOrphans()
	near, far, err := newGuardianConn()
	if err != nil {
		return nil, err
	}
	c.conn = near
	if !until.IsZero() {
		c.setDeadline(until) // now: we may be stopped when the command has just begun
	}
	if err := c.startGuardian(cmd, far, live, ignored); err != nil {
		return nil, err
	}
	started := make(chan error, 2)
	go c.receiveFromGuardian(started) // ends with the guardian
	if err := <-started; err != nil {
		return nil, err
	}
	go c.forwardSignals() // ends with the command
	return c, nil
}

// startGuardian starts the guardian, with the far end of the link. That is closed here:
// it must not be open but in the guardian, or its end would not be noticed.
func (c *child) startGuardian(cmd *exec.Cmd, far, live *os.File, ignored []syscall.Signal) error {
	defer far.Close()
	theirs, err := inheritable(far)
	if err != nil {
		return err
	}
	defer theirs.Close()
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
	g.Args = append(guardianArgs(theirs, c.ownGroup, ignored), append([]string{cmd.Path}, cmd.Args...)...)
	g.Env, g.Stdin, g.Stdout, g.Stderr = cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr
	g.SysProcAttr = &syscall.SysProcAttr{Setpgid: c.ownGroup}
	if err := g.Start(); err != nil {
		return fmt.Errorf("guardian: %w", err)
	}
	c.guardian = g.Process.Pid
	return nil
}

// ourselves is the program that we are, even if another has taken its place since.
func ownExecutable() (string, error) {
	path, err := os.Executable()
	if now, gone := os.Stat(path); err == nil {
		if we, unknown := os.Stat("/proc/self/exe"); unknown == nil && (gone != nil || !os.SameFile(now, we)) {
			return "/proc/self/exe", nil
		}
		return path, nil
	}
	return exec.LookPath(os.Args[0]) // there is no /proc
}

// inheritable is a copy of f that what we start inherits, under a number that nobody
// uses: descriptor 3 and so on may be the caller's own.
func inheritable(f *os.File) (*os.File, error) {
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD, 100)
	if err == unix.EINVAL { // we may not have so many
		fd, err = unix.FcntlInt(f.Fd(), unix.F_DUPFD, 10)
	}
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), f.Name()), nil
}

// listen takes in what the guardian tells, to its end.
func (c *child) receiveFromGuardian(started chan<- error) {
	end := make(chan syscall.WaitStatus, 1)
	go func() { end <- waitChild(c.guardian, nil) }() // waited for below; orphans are buried meanwhile
	var status *syscall.WaitStatus
	c.conn.receive(func(word string, n int64) {
		switch word {
		case "started":
			c.pid = int(n)
			started <- nil
		case "failed":
			started <- syscall.Errno(n)
		case "signal":
			c.receive(receivedSignal{syscall.Signal(n), atGuardian})
		case "answer":
			select {
			case c.syncReplies <- n:
			default: // nobody waits for so many
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
	if c.pid == 0 { // there is no command, or nobody has told of it
		processTree{guardian: c.guardian, preexisting: c.preexisting}.killAll()
		started <- guardianEnded(ended) // nobody listens, if it has failed
		return
	}
	if status == nil { // the guardian was killed, and the command with it
		c.killAll()
		status = new(syscall.WaitStatus(syscall.SIGKILL))
	}
	c.done <- *status
}

// guardianEnded says that the guardian has ended before the command began. A signal that
// it did not catch yet was meant for all of us.
func guardianEnded(status syscall.WaitStatus) error {
	if status.Signaled() {
		return &exitError{code: statusCode(status)}
	}
	return fmt.Errorf("guardian: ended with %d", statusCode(status))
}

// stopToo stops us as well when the terminal has stopped the command, which is in our
// group, for reading or writing in its background: the shell we were started by sees
// us, and brings back only what has stopped.
func (c *child) stopWithCommand(sig syscall.Signal) {
	if !c.ownGroup && (sig == syscall.SIGTTOU || sig == syscall.SIGTTIN) {
		_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
	}
}

// endGuardian is for a guardian that stands still when it should tell of the end.
func (c *child) killGuardian() { _ = syscall.Kill(c.guardian, syscall.SIGKILL) }

// endBy has the guardian end the command at a time, unless it is told another before:
// we may be stopped, or stand still, and the lock would pass to another.
func (c *child) setDeadline(t time.Time) {
	now := uptime() // before Until: if we are stopped in between, it is early
	_ = c.conn.send("until", now+int64(time.Until(t)))
}

func statusCode(status syscall.WaitStatus) int {
	if status.Signaled() {
		return exitSignal + int(status.Signal())
	}
	return status.ExitStatus()
}

// killed reports whether a signal ended the command.
func endedBySignal(status syscall.WaitStatus) bool { return status.Signaled() }

// guardianArgs is the command line of a guardian, but for the command.
func guardianArgs(link *os.File, own bool, ignored []syscall.Signal) []string {
	var numbers []string
	for _, n := range ignored {
		numbers = append(numbers, strconv.Itoa(int(n)))
	}
	return []string{os.Args[0], guardianVerb, strconv.Itoa(int(link.Fd())), strconv.FormatBool(own), strings.Join(numbers, ",")}
}

// guardianVerb is not for people: pawl starts itself with it.
const guardianVerb = "guardian"
