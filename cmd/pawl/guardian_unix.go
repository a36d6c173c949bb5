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
	done    chan syscall.WaitStatus
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
		signals: make(chan os.Signal, 16), orders: make(chan order), done: make(chan syscall.WaitStatus, 1),
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
			g.done <- reap(cmd.Process.Pid)
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
	end := time.NewTimer(time.Hour)
	end.Stop()
	for {
		select {
		case status := <-g.done:
			g.link.send("ended", int64(status))
			return
		case sig := <-g.signals:
			g.tell(sig)
		case o, alive := <-g.orders:
			switch {
			case !alive:
				g.signalAll(syscall.SIGKILL)
				g.endAll()
				return
			case o.word == "until":
				end.Reset(time.Duration(o.n - uptime()))
			case o.word == "ask":
				g.answer(o.n)
			}
		case <-end.C:
			g.signalAll(syscall.SIGKILL)
			end.Reset(50 * time.Millisecond) // and again, until nobody is left
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

// uptime is a clock that all processes of a machine share.
func uptime() int64 {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts) // it is there
	return ts.Nano()
}
