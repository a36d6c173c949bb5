//go:build unix

package main

import (
	"fmt"
	"os"
	"os/exec"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// defaultPath is where commands are searched for without a PATH.
const defaultPath = "/usr/local/bin:/usr/bin:/bin"

// caught are the signals that end a program or are meant for it. Those that stop one
// are left alone: whoever stops us stops the lock.
var caught = []os.Signal{
	syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM,
	syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGALRM, syscall.SIGWINCH, syscall.SIGCONT,
}

// A child is the command and whatever it starts, with the guardian between us: a
// process of ours that ends them all if we are killed, or stopped until the lock has
// passed to another.
type child struct {
	family
	link     *link
	done     chan syscall.WaitStatus
	over     chan struct{} // closed before done is sent
	arrivals chan arrival
	answers  chan int64  // by its number: the guardian has told of every signal it had when it was asked
	asked    int64       // of relay: the last question
	late     atomic.Bool // the guardian has ended the command: it was not told of a later end in time
}

// start starts the command, to be ended at a time unless endBy names another; a zero
// time is none. With a terminal it stays in our process group, so that Ctrl-C reaches
// it once, from the terminal, and it may read; without one it gets a group of its own,
// which we signal. The guardian is in our group with a terminal, to notice what is sent
// to the whole group, and alone in one otherwise, to outlive what ends ours.
func start(cmd *exec.Cmd, live *os.File, ignored []syscall.Signal, until time.Time) (*child, error) {
	c := &child{
		family: family{own: !hasTerminal(), before: descendants(os.Getpid(), nil)},
		done:   make(chan syscall.WaitStatus, 1), over: make(chan struct{}),
		arrivals: make(chan arrival, 16), answers: make(chan int64, 16),
	}
	adoptOrphans()
	near, far, err := newLink()
	if err != nil {
		return nil, err
	}
	c.link = near
	if !until.IsZero() {
		c.endBy(until) // now: we may be stopped when the command has just begun
	}
	if err := c.startGuardian(cmd, far, live, ignored); err != nil {
		return nil, err
	}
	started := make(chan error, 2)
	go c.listen(started) // ends with the guardian
	if err := <-started; err != nil {
		return nil, err
	}
	go c.relay() // ends with the command
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
	program, err := ourselves()
	if err != nil {
		return err
	}
	g := exec.Command(program)
	g.Args = append(guardianArgs(theirs, c.own, ignored), append([]string{cmd.Path}, cmd.Args...)...)
	g.Env, g.Stdin, g.Stdout, g.Stderr = cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr
	g.SysProcAttr = &syscall.SysProcAttr{Setpgid: c.own}
	if err := g.Start(); err != nil {
		return fmt.Errorf("guardian: %w", err)
	}
	c.guardian = g.Process.Pid
	return nil
}

// ourselves is the program that we are, even if another has taken its place since.
func ourselves() (string, error) {
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
func (c *child) listen(started chan<- error) {
	end := make(chan syscall.WaitStatus, 1)
	go func() { end <- reap(c.guardian, nil) }() // waited for below; orphans are buried meanwhile
	var status *syscall.WaitStatus
	c.link.receive(func(word string, n int64) {
		switch word {
		case "started":
			c.pid = int(n)
			started <- nil
		case "failed":
			started <- syscall.Errno(n)
		case "signal":
			c.arrive(arrival{syscall.Signal(n), atGuardian})
		case "answer":
			select {
			case c.answers <- n:
			default: // nobody waits for so many
			}
		case "stopped":
			c.stopToo(syscall.Signal(n))
		case "late":
			c.late.Store(true)
		case "ended":
			status = new(syscall.WaitStatus(n))
		}
	})
	ended := <-end
	c.link.Close()
	close(c.over)
	if c.pid == 0 { // there is no command, or nobody has told of it
		family{guardian: c.guardian, before: c.before}.endAll()
		started <- guardianEnded(ended) // nobody listens, if it has failed
		return
	}
	if status == nil { // the guardian was killed, and the command with it
		c.endAll()
		status = new(syscall.WaitStatus(syscall.SIGKILL))
	}
	c.done <- *status
}

// guardianEnded says that the guardian has ended before the command began. A signal that
// it did not catch yet was meant for all of us.
func guardianEnded(status syscall.WaitStatus) error {
	if status.Signaled() {
		return &coded{code: codeFrom(status)}
	}
	return fmt.Errorf("guardian: ended with %d", codeFrom(status))
}

// stopToo stops us as well when the terminal has stopped the command, which is in our
// group, for reading or writing in its background: the shell we were started by sees
// us, and brings back only what has stopped.
func (c *child) stopToo(sig syscall.Signal) {
	if !c.own && (sig == syscall.SIGTTOU || sig == syscall.SIGTTIN) {
		_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
	}
}

// endGuardian is for a guardian that stands still when it should tell of the end.
func (c *child) endGuardian() { _ = syscall.Kill(c.guardian, syscall.SIGKILL) }

// endBy has the guardian end the command at a time, unless it is told another before:
// we may be stopped, or stand still, and the lock would pass to another.
func (c *child) endBy(t time.Time) {
	now := uptime() // before Until: if we are stopped in between, it is early
	_ = c.link.send("until", now+int64(time.Until(t)))
}

func codeFrom(status syscall.WaitStatus) int {
	if status.Signaled() {
		return exitSignal + int(status.Signal())
	}
	return status.ExitStatus()
}

// killed reports whether a signal ended the command.
func killed(status syscall.WaitStatus) bool { return status.Signaled() }
