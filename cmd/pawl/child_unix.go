//go:build unix

package main

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"
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
	answers  chan int64 // by its number: the guardian has told of every signal it had when it was asked
	asked    int64      // of relay: the last question
}

// start starts the command. With a terminal it stays in our process group, so
// that Ctrl-C reaches it once, from the terminal, and it may read; without one it
// gets a group of its own, which we signal. The guardian is in our group with a
// terminal, to notice what is sent to the whole group, and alone in one otherwise, to
// outlive what ends ours.
func start(cmd *exec.Cmd, live *os.File, ignored []syscall.Signal) (*child, error) {
	c := &child{
		family: family{own: !hasTerminal()},
		done:   make(chan syscall.WaitStatus, 1), over: make(chan struct{}),
		arrivals: make(chan arrival, 16), answers: make(chan int64, 16),
	}
	adoptOrphans()
	near, far, err := newLink()
	if err != nil {
		return nil, err
	}
	defer far.Close()
	c.link = near
	var inherited []*os.File
	for _, f := range []*os.File{far, live} {
		if f == nil {
			continue
		}
		if f, err = inheritable(f); err != nil {
			return nil, err
		}
		inherited = append(inherited, f)
		defer f.Close()
	}
	program, err := ourselves()
	if err != nil {
		return nil, err
	}
	g := exec.Command(program)
	g.Args = append(guardianArgs(inherited[0], c.own, ignored), append([]string{cmd.Path}, cmd.Args...)...)
	g.Env, g.Stdin, g.Stdout, g.Stderr = cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr
	g.SysProcAttr = &syscall.SysProcAttr{Setpgid: c.own}
	if err := g.Start(); err != nil {
		return nil, fmt.Errorf("guardian: %w", err)
	}
	c.guardian = g.Process.Pid
	started := make(chan error, 2)
	go c.listen(started) // ends with the guardian
	if err := <-started; err != nil {
		return nil, err
	}
	go c.relay() // ends with the command
	return c, nil
}

// ourselves is the program that we are.
func ourselves() (string, error) {
	path, err := os.Executable()
	if err != nil { // there is no /proc
		path, err = exec.LookPath(os.Args[0])
	}
	return path, err
}

// inheritable is a copy of f that what we start inherits, under a number that nobody
// uses: descriptor 3 and so on may be the caller's own.
func inheritable(f *os.File) (*os.File, error) {
	fd, _, errno := syscall.Syscall(syscall.SYS_FCNTL, f.Fd(), syscall.F_DUPFD, 100)
	if errno != 0 {
		return nil, errno
	}
	return os.NewFile(fd, f.Name()), nil
}

// listen takes in what the guardian tells, to its end.
func (c *child) listen(started chan<- error) {
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
		case "ended":
			status = new(syscall.WaitStatus(n))
		}
	})
	end := reap(c.guardian)
	c.link.Close()
	close(c.over)
	if c.pid == 0 { // there is no command
		started <- fmt.Errorf("guardian: ended with %d", codeFrom(end)) // nobody listens, if it has failed
		return
	}
	if status == nil { // the guardian was killed, and the command with it
		c.endAll()
		status = new(syscall.WaitStatus(syscall.SIGKILL))
	}
	c.done <- *status
}

// endBy has the guardian end the command at a time, unless it is told another before:
// we may be stopped, or stand still, and the lock would pass to another.
func (c *child) endBy(t time.Time) {
	now := uptime() // before Until: if we are stopped in between, it is early
	c.link.send("until", now+int64(time.Until(t)))
}

// reap waits for a child. Orphans that were left to us, because we are process 1 or
// asked for them, are buried on the way.
func reap(pid int) syscall.WaitStatus {
	for {
		var status syscall.WaitStatus
		got, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case err == syscall.EINTR:
		case err != nil:
			return status
		case got == pid && (status.Exited() || status.Signaled()):
			return status
		}
	}
}

func codeFrom(status syscall.WaitStatus) int {
	if status.Signaled() {
		return exitSignal + int(status.Signal())
	}
	return status.ExitStatus()
}

// killed reports whether a signal ended the command.
func killed(status syscall.WaitStatus) bool { return status.Signaled() }
