//go:build unix

package main

import (
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// defaultPath is where commands are searched for without a PATH.
const defaultPath = "/usr/local/bin:/usr/bin:/bin"

var caught = []os.Signal{
	syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM,
	syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGALRM, syscall.SIGWINCH, syscall.SIGCONT,
}

// A child is the command, and whatever it starts.
type child struct {
	pid  int
	own  bool // in a process group of its own
	done chan syscall.WaitStatus
}

// start starts the command. With a terminal it stays in our process group, so
// that Ctrl-C reaches it once, from the terminal, and it may read; without one it
// gets a group of its own, which we signal.
func start(cmd *exec.Cmd, live *os.File) (*child, error) {
	c := &child{own: !hasTerminal(), done: make(chan syscall.WaitStatus, 1)}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: c.own}
	tieTo(cmd.SysProcAttr)
	adoptOrphans()
	free, err := inherit(live)
	if err != nil {
		return nil, err
	}
	started := make(chan error)
	go func() { // ends with the child, or with us
		// The signal that the kernel sends the child when its parent dies follows
		// the thread that started it, not the process: this one stays.
		runtime.LockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			c.done <- reap(cmd.Process.Pid)
		}
	}()
	err = <-started
	free()
	if err != nil {
		return nil, err
	}
	c.pid = cmd.Process.Pid
	return c, nil
}

// inherit lets the command inherit a file under a number that nobody uses:
// descriptor 3 and so on may be the caller's own.
func inherit(f *os.File) (free func(), err error) {
	if f == nil {
		return func() {}, nil
	}
	fd, _, errno := syscall.Syscall(syscall.SYS_FCNTL, f.Fd(), syscall.F_DUPFD, 100)
	if errno != 0 {
		return nil, errno
	}
	return func() { syscall.Close(int(fd)) }, nil
}

// reap waits for the command. Orphans that were left to us, because we are
// process 1 or asked for them, are buried on the way.
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

// forwards reports whether a signal is ours to pass on. What a terminal sends
// goes to the whole group; passing it on would make two of it.
func (c *child) forwards(n syscall.Signal) bool {
	if c.own {
		return true
	}
	switch n {
	case syscall.SIGINT, syscall.SIGQUIT, syscall.SIGWINCH, syscall.SIGCONT:
		return false
	}
	return true
}

// signal sends n to the command, and to its group if that is its own.
func (c *child) signal(n syscall.Signal) {
	if c.own {
		_ = syscall.Kill(-c.pid, n)
		return
	}
	_ = syscall.Kill(c.pid, n)
}

// signalAll sends n to the command and to everything that descends from it.
func (c *child) signalAll(n syscall.Signal) {
	below := descendants(os.Getpid())
	c.signal(n)
	for _, pid := range below {
		if pid != c.pid {
			_ = syscall.Kill(pid, n)
		}
	}
}

// endAll kills what is left once the command has ended. One that forks while it
// is being killed leaves another behind, so this goes on until there is none, or
// none that we may kill.
func (c *child) endAll() {
	if c.own {
		_ = syscall.Kill(-c.pid, syscall.SIGKILL)
	}
	for giveUp := time.Now().Add(5 * time.Second); time.Now().Before(giveUp); time.Sleep(time.Millisecond) {
		below := descendants(os.Getpid())
		if len(below) == 0 {
			return
		}
		for _, pid := range below {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		bury()
	}
}

// bury takes leave of children that have ended.
func bury() {
	for {
		if pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); pid <= 0 && err != syscall.EINTR {
			return
		}
	}
}

func codeFrom(status syscall.WaitStatus) int {
	if status.Signaled() {
		return exitSignal + int(status.Signal())
	}
	return status.ExitStatus()
}

// hasTerminal reports whether we have a controlling terminal.
func hasTerminal() bool {
	f, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		return false
	}
	f.Close()
	return true
}
