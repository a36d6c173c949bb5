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

// isGuardian reports whether a command line is a guardian's.
func isGuardian(args []string) bool {
	if len(args) < 7 || args[1] != guardianVerb {
		return false
	}
	_, err := strconv.Atoi(args[2])
	return err == nil
}

// A guardian starts the command and stays its parent. It ends the command, and
// everything that descends from it, when pawl dies, and at the time that pawl has
// named last.
type guardian struct {
	processTree
	conn     *guardianConn
	signals  chan os.Signal
	requests chan request
	stops    chan syscall.Signal // by which the command was stopped
	done     chan syscall.WaitStatus
	killAt   int64 // when the command has to be ended, by uptime; 0: never
}

type request struct {
	word string
	n    int64
}

// guardianMain is a guardian from its beginning to its end.
func guardianMain(args []string) int {
	fd, _ := strconv.Atoi(args[2]) // isGuardian has looked
	syscall.CloseOnExec(fd)
	link, err := connFromFD(fd)
	if err != nil { // pawl did not start us
		return exitUsage
	}
	g := &guardian{
		processTree: processTree{ownGroup: args[3] == "true"}, conn: link,
		signals: make(chan os.Signal, 16), requests: make(chan request), stops: make(chan syscall.Signal, 1), done: make(chan syscall.WaitStatus, 1),
	}
	adoptOrphans()
	g.setUpSignals(strings.Split(args[4], ","))
	go func() { // ends with pawl, or with us
		g.conn.receive(func(word string, n int64) { g.requests <- request{word, n} })
		close(g.requests)
	}()
	if err := g.start(args[5], args[6:]); err != nil {
		errno, _ := errors.AsType[syscall.Errno](err)
		g.conn.send("failed", int64(errno))
		return exitNotExec
	}
	g.conn.send("started", int64(g.pid))
	g.watch()
	return 0
}

// settle makes signals what they shall be in the command: ignored where they were
// when pawl began, and otherwise as ever, since what is caught here is not there. We
// catch what would end or stop us.
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

// start starts the command.
func (g *guardian) start(program string, argv []string) error {
	cmd := &exec.Cmd{Path: program, Args: argv, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: g.ownGroup}
	dieWithParent(cmd.SysProcAttr)
	started := make(chan error)
	go func() { // ends with the command, or with us
		// The signal that the kernel sends the command when its parent dies follows
		// the thread that started it, not the process: this one stays.
		runtime.LockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			g.done <- waitChild(cmd.Process.Pid, func(sig syscall.Signal) { g.stops <- sig })
		}
	}()
	err := <-started
	if err == nil {
		g.pid = cmd.Process.Pid
	}
	return err
}

// watch stays until the command has ended, or has to be.
func (g *guardian) watch() {
	tick := time.NewTimer(0)
	late := false
	for {
		select {
		case status := <-g.done:
			if late {
				g.killAll()
			}
			if !g.conn.send("ended", int64(status)) { // pawl is gone too, just now
				g.killAll()
			}
			return
		case sig := <-g.signals:
			g.reportSignal(sig)
		case sig := <-g.stops:
			g.conn.send("stopped", int64(sig))
		case o, alive := <-g.requests:
			if !alive {
				g.signalAll(syscall.SIGKILL)
				g.killAll()
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
				g.signalAll(syscall.SIGKILL) // and again, until nobody is left
			}
			tick.Reset(g.nextCheck())
		}
	}
}

// pause is when to look at the clock again: it may jump, when a machine has slept.
func (g *guardian) nextCheck() time.Duration {
	if g.killAt == 0 {
		return time.Hour
	}
	return min(max(time.Duration(g.killAt-uptime()), 50*time.Millisecond), time.Second)
}

func (g *guardian) handle(o request) {
	switch o.word {
	case "until":
		g.killAt = o.n
	case "ask":
		g.reportSignals(o.n)
	}
}

// hasNews takes in what pawl has said while we stood still, and reports whether the
// time is not over after all.
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

// answer tells of the signals that are here before it answers.
func (g *guardian) reportSignals(question int64) {
	for {
		select {
		case sig := <-g.signals:
			g.reportSignal(sig)
		default:
			g.conn.send("answer", question)
			return
		}
	}
}
