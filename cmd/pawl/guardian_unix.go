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

	"golang.org/x/sys/unix"
)

// guardianVerb is not for people: pawl starts itself with it.
const guardianVerb = "guardian"

// guardianArgs is the command line of a guardian, but for the command.
func guardianArgs(link *os.File, own bool, ignored []syscall.Signal) []string {
	var numbers []string
	for _, n := range ignored {
		numbers = append(numbers, strconv.Itoa(int(n)))
	}
	return []string{os.Args[0], guardianVerb, strconv.Itoa(int(link.Fd())), strconv.FormatBool(own), strings.Join(numbers, ",")}
}

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
	family
	link    *link
	signals chan os.Signal
	orders  chan order
	stops   chan syscall.Signal // by which the command was stopped
	done    chan syscall.WaitStatus
	until   int64 // when the command has to be ended, by uptime; 0: never
}

type order struct {
	word string
	n    int64
}

// guardianMain is a guardian from its beginning to its end.
func guardianMain(args []string) int {
	fd, _ := strconv.Atoi(args[2]) // isGuardian has looked
	syscall.CloseOnExec(fd)
	link, err := linkOf(fd)
	if err != nil { // pawl did not start us
		return exitUsage
	}
	g := &guardian{
		family: family{own: args[3] == "true"}, link: link,
		signals: make(chan os.Signal, 16), orders: make(chan order), stops: make(chan syscall.Signal, 1), done: make(chan syscall.WaitStatus, 1),
	}
	adoptOrphans()
	g.settle(strings.Split(args[4], ","))
	go func() { // ends with pawl, or with us
		g.link.receive(func(word string, n int64) { g.orders <- order{word, n} })
		close(g.orders)
	}()
	if err := g.start(args[5], args[6:]); err != nil {
		errno, _ := errors.AsType[syscall.Errno](err)
		g.link.send("failed", int64(errno))
		return exitNotExec
	}
	g.link.send("started", int64(g.pid))
	g.watch()
	return 0
}

// settle makes signals what they shall be in the command: ignored where they were
// when pawl began, and otherwise as ever, since what is caught here is not there. We
// catch what would end or stop us.
func (g *guardian) settle(ignored []string) {
	stop := []os.Signal{syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU, syscall.SIGPIPE}
	for _, sig := range append(stop, caught...) {
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
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: g.own}
	tieTo(cmd.SysProcAttr)
	started := make(chan error)
	go func() { // ends with the command, or with us
		// The signal that the kernel sends the command when its parent dies follows
		// the thread that started it, not the process: this one stays.
		runtime.LockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			g.done <- reap(cmd.Process.Pid, func(sig syscall.Signal) { g.stops <- sig })
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
				g.endAll()
			}
			if !g.link.send("ended", int64(status)) { // pawl is gone too, just now
				g.endAll()
			}
			return
		case sig := <-g.signals:
			g.tell(sig)
		case sig := <-g.stops:
			g.link.send("stopped", int64(sig))
		case o, alive := <-g.orders:
			if !alive {
				g.signalAll(syscall.SIGKILL)
				g.endAll()
				return
			}
			g.obey(o)
			tick.Reset(g.pause())
		case <-tick.C:
			if g.until != 0 && uptime() >= g.until && !g.hasNews() {
				if !late {
					late = true
					g.link.send("late", 0)
				}
				g.signalAll(syscall.SIGKILL) // and again, until nobody is left
			}
			tick.Reset(g.pause())
		}
	}
}

// pause is when to look at the clock again: it may jump, when a machine has slept.
func (g *guardian) pause() time.Duration {
	if g.until == 0 {
		return time.Hour
	}
	return min(max(time.Duration(g.until-uptime()), 50*time.Millisecond), time.Second)
}

func (g *guardian) obey(o order) {
	switch o.word {
	case "until":
		g.until = o.n
	case "ask":
		g.answer(o.n)
	}
}

// hasNews takes in what pawl has said while we stood still, and reports whether the
// time is not over after all.
func (g *guardian) hasNews() bool {
	for {
		select {
		case o, alive := <-g.orders:
			if !alive {
				return false
			}
			g.obey(o)
		case <-time.After(10 * time.Millisecond):
			return uptime() < g.until
		}
	}
}

func (g *guardian) tell(sig os.Signal) {
	if slices.Contains(caught, sig) {
		g.link.send("signal", int64(sig.(syscall.Signal)))
	}
}

// answer tells of the signals that are here before it answers.
func (g *guardian) answer(question int64) {
	for {
		select {
		case sig := <-g.signals:
			g.tell(sig)
		default:
			g.link.send("answer", question)
			return
		}
	}
}

func clock(id int32) int64 {
	var ts unix.Timespec
	_ = unix.ClockGettime(id, &ts) // it is there
	return ts.Nano()
}

// ignoredByGo lists what was ignored when we began, as far as Go keeps it as it was.
func ignoredByGo() (ignored []syscall.Signal) {
	for _, sig := range []syscall.Signal{syscall.SIGHUP, syscall.SIGINT} {
		if signal.Ignored(sig) {
			ignored = append(ignored, sig)
		}
	}
	return ignored
}
