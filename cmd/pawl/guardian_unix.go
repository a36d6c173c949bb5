//go:build unix

package main

import (
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// isGuardian reports whether this is the command line of a guardian.
func isGuardian(args []string) bool {
	if len(args) < 8 || args[1] != guardianVerb {
		return false
	}
	_, err := strconv.Atoi(args[2])
	return err == nil
}

// A guardian starts the command and stays its parent. It kills the command and all
// its descendants when pawl dies, and at the deadline that pawl set last.
type guardian struct {
	processTree
	conn     *guardianConn
	signals  chan os.Signal
	requests chan request
	stops    chan syscall.Signal // signals that stopped the command
	done     chan syscall.WaitStatus
	killAt   int64 // the deadline, in uptime; 0: none
}

type request struct {
	word string
	n    int64
}

// guardianMain runs a guardian and returns its exit code.
func guardianMain(args []string) int {
	fd, _ := strconv.Atoi(args[2]) // checked by isGuardian
	syscall.CloseOnExec(fd)
	link, err := connFromFD(fd)
	if err != nil { // not started by pawl
		return exitUsage
	}
	g := &guardian{
		processTree: processTree{ownGroup: args[3] == "true", cgroup: openCgroup(args[5])}, conn: link,
		signals: make(chan os.Signal, 16), requests: make(chan request), stops: make(chan syscall.Signal, 1), done: make(chan syscall.WaitStatus, 1),
	}
	_ = adoptOrphans() // pawl has warned if this does not work
	g.setUpSignals(strings.Split(args[4], ","))
	go func() { // ends with pawl, or with this process
		g.conn.receive(func(word string, n int64) { g.requests <- request{word, n} })
		close(g.requests)
	}()
	if err := g.start(args[6], args[7:]); err != nil {
		errno, _ := errors.AsType[syscall.Errno](err)
		g.conn.send("failed", int64(errno))
		return exitNotExec
	}
	g.conn.sendStarted(g.process)
	g.watch()
	return 0
}

// setUpSignals prepares signal handling for the command: signals that were ignored
// when pawl started stay ignored, the others get their default action, because
// caught signals are reset on exec. The guardian catches everything that would end
// or stop it.
func (g *guardian) setUpSignals(ignored []string) {
	stop := []os.Signal{syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU, syscall.SIGPIPE}
	for _, sig := range append(stop, caughtSignals...) {
		if slices.Contains(ignored, strconv.Itoa(int(sig.(syscall.Signal)))) {
			signal.Ignore(sig)
		} else {
			signal.Notify(g.signals, sig)
		}
	}
}

// start starts the command, in its cgroup if the kernel permits it.
func (g *guardian) start(program string, argv []string) error {
	if g.cgroup != nil && g.startIn(g.cgroup, program, argv) == nil {
		return nil
	}
	return g.startIn(nil, program, argv)
}

func (g *guardian) startIn(group *cgroup, program string, argv []string) error {
	cmd := &exec.Cmd{Path: program, Args: argv, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: g.ownGroup}
	pidfd := -1
	prepareToKeep(cmd.SysProcAttr, &pidfd)
	defer group.startIn(cmd.SysProcAttr)()
	started := make(chan error)
	go func() { // ends with the command, or with this process
		// The kernel sends the parent-death signal when the thread that started the
		// command ends, not the process, so this thread must stay.
		runtime.LockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			g.done <- waitChild(cmd.Process.Pid, func(sig syscall.Signal) { g.stops <- sig })
		}
	}()
	err := <-started
	if err == nil {
		g.process = newProcess(cmd.Process.Pid, pidfd)
	}
	return err
}

// watch returns when the command has ended or was killed.
func (g *guardian) watch() {
	tick := time.NewTimer(0)
	late := false
	for {
		select {
		case status := <-g.done:
			if late {
				g.killAll()
			}
			if !g.conn.send("ended", int64(status)) { // pawl died at the same moment
				g.killAll()
				g.cgroup.remove()
			}
			return
		case sig := <-g.signals:
			g.reportSignal(sig)
		case sig := <-g.stops:
			g.conn.send("stopped", int64(sig))
		case o, alive := <-g.requests:
			if !alive {
				_ = g.signalAll(syscall.SIGKILL)
				g.killAll()
				g.cgroup.remove()
				return
			}
			g.handle(o)
			tick.Reset(g.nextCheck())
		case <-tick.C:
			if g.killAt != 0 && uptime() >= g.killAt && !g.deadlineMoved() {
				if !late {
					late = true
					g.conn.send("late", 0)
				}
				_ = g.signalAll(syscall.SIGKILL) // repeated until nothing is left
			}
			tick.Reset(g.nextCheck())
		}
	}
}

// nextCheck returns when to read the clock again. The clock may jump after a
// suspend.
func (g *guardian) nextCheck() time.Duration {
	if g.killAt == 0 {
		return time.Hour
	}
	return min(max(time.Duration(g.killAt-uptime()), 50*time.Millisecond), time.Second)
}

func (g *guardian) handle(o request) {
	switch o.word {
	case "deadline":
		g.killAt = o.n
	case "sync":
		g.reportSignals(o.n)
	}
}

// deadlineMoved handles the requests that pawl sent while this process was stalled,
// and reports whether the deadline is now in the future.
func (g *guardian) deadlineMoved() bool {
	for {
		select {
		case o, alive := <-g.requests:
			if !alive {
				return false
			}
			g.handle(o)
		case <-time.After(10 * time.Millisecond):
			return uptime() < g.killAt
		}
	}
}

func (g *guardian) reportSignal(sig os.Signal) {
	if slices.Contains(caughtSignals, sig) {
		g.conn.send("signal", int64(sig.(syscall.Signal)))
	}
}

// reportSignals reports all received signals before it answers a sync.
func (g *guardian) reportSignals(number int64) {
	for {
		select {
		case sig := <-g.signals:
			g.reportSignal(sig)
		default:
			g.conn.send("synced", number)
			return
		}
	}
}
