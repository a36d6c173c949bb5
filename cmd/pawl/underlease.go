package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/cmd/pawl/internal/claimview"
)

// runUnderLease runs the command while the lease is held. It returns the command's
// exit code, or ErrLost if the command had to be stopped.
func (j *job) runUnderLease(lease *pawl.Lease, c *pawl.Client, program string, signals *signals) (int, error) {
	j.messages.waitAtMost(time.Second)  // pawl's messages come before the command's output
	if err := lease.Err(); err != nil { // pawl may have been stalled since the grant
		j.say("lost %q before the command began: %s", j.name, oneLine(err))
		return 0, pawl.ErrLost
	}
	cmd := exec.Command(program)
	cmd.Args = j.argv
	cmd.Env = j.environment(lease)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if j.stdout != nil {
		cmd.Stdout = j.stdout
	}
	j.terminal.save()
	j.running.Store(true)
	defer j.resumeMessages()
	var until time.Time
	if j.onLost == "kill" {
		until = lease.Deadline()
	}
	ch, err := start(cmd, livenessFile(c), signals.ignored, until, j.warnUnreachable)
	if _, ok := errors.AsType[*exitError](err); ok {
		return 0, err
	}
	if err != nil {
		if e, ok := errors.AsType[*fs.PathError](err); ok {
			err = e.Err // the path is in the message already
		}
		return 0, &exitError{exitNotExec, fmt.Errorf("%s: %w", j.argv[0], err)}
	}
	j.events.add(event{Event: "started", Name: j.name, Token: claimview.Token(j.partOfName(lease).Token()), PID: ch.pid})
	g := &leaseGuard{j: j, lease: lease, child: ch}
	for {
		wait := g.nextCheck()
		select {
		case status := <-ch.done:
			wait.Stop()
			g.afterExit()
			if g.lost || endedBySignal(status) {
				j.terminal.restore()
			}
			if g.lost {
				return 0, pawl.ErrLost
			}
			return statusCode(status), nil
		case sig := <-signals.ch:
			g.handleSignal(sig)
		case <-g.contextDone():
			g.contextEnded()
		case <-wait.C:
			g.checkDeadline()
		}
		wait.Stop()
	}
}

// livenessFile returns the file whose lock shows the local store that this process
// is alive. The command inherits it, so that the lock of a killed pawl becomes free
// when the command has ended too, and not before.
func livenessFile(c *pawl.Client) *os.File {
	if e, ok := c.Engine().(interface{ LiveFile() *os.File }); ok {
		return e.LiveFile()
	}
	return nil
}

// A leaseGuard stops the command before its lease can pass to another holder. It
// sends SIGTERM --kill-after before the deadline, unless the deadline has moved by
// then, and SIGKILL at the deadline. The guardian also sends SIGKILL, in case pawl
// cannot.
type leaseGuard struct {
	j           *job
	lease       *pawl.Lease
	child       *child
	lost        bool      // the command is being stopped, or would be, but for --on-lost ignore
	contextSeen bool      // the end of the lease's context was handled
	killAt      time.Time // zero: do not kill
	stoppedAt   time.Time // when SIGTERM was sent
	kills       int
}

// nextCheck returns a timer for the next check.
func (g *leaseGuard) nextCheck() *time.Timer {
	switch {
	case !g.killAt.IsZero():
		return time.NewTimer(time.Until(g.killAt))
	case g.lost:
		return time.NewTimer(time.Hour)
	}
	deadline := g.lease.Deadline()
	if g.j.onLost == "kill" {
		g.child.setDeadline(deadline)
	}
	return time.NewTimer(min(time.Until(deadline.Add(-g.j.killAfter)), max(g.j.ttl/20, 50*time.Millisecond))) // the guardian may kill too early by this much
}

// contextDone returns the done channel of the lease's context until its end was
// handled.
func (g *leaseGuard) contextDone() <-chan struct{} {
	if g.contextSeen {
		return nil
	}
	return g.lease.Context().Done()
}

// checkDeadline runs --kill-after before the deadline, and again at the deadline.
func (g *leaseGuard) checkDeadline() {
	now := time.Now()
	switch deadline := g.lease.Deadline(); {
	case !g.killAt.IsZero():
		if !now.Before(g.killAt) {
			g.kill()
		}
	case !g.lost && !now.Before(deadline.Add(-g.j.killAfter)):
		g.stopCommand(fmt.Sprintf("%s confirmed nothing for %s", g.j.store.shown, claimview.Brief(g.j.ttl-time.Until(deadline))), deadline)
	}
}

// contextEnded runs when the lease's context has ended: at the deadline, or because
// the store no longer knows the lock.
func (g *leaseGuard) contextEnded() {
	g.contextSeen = true
	why := strings.TrimPrefix(oneLine(context.Cause(g.lease.Context())), pawl.ErrLost.Error()+": ") // the message says so already
	deadline := g.lease.Deadline()
	switch {
	case !g.lost && time.Now().Before(deadline): // an operator broke it: another may hold the lock now
		g.stopCommand(why, time.Now().Add(g.j.killAfter))
	case !g.lost:
		g.stopCommand(why, time.Now())
	case !g.killAt.IsZero():
		g.kill()
	}
}

// stopCommand starts to stop the command.
func (g *leaseGuard) stopCommand(why string, kill time.Time) {
	g.lost, g.stoppedAt = true, time.Now()
	g.j.events.add(event{Event: "lost", Name: g.j.name, Token: claimview.Token(g.j.partOfName(g.lease).Token()), Error: why})
	switch g.j.onLost {
	case "ignore":
		g.j.say("lost %q: %s; the command runs on (--on-lost ignore)", g.j.name, why)
	case "term":
		g.sayStopping(why, g.child.signalAll(syscall.SIGTERM), "TERM", "")
	default: // signal before printing: the reader may have stopped
		err := g.child.signalAll(syscall.SIGTERM)
		g.child.setDeadline(kill)
		g.killAt = kill
		g.sayStopping(why, err, "TERM, ", "KILL in "+claimview.Brief(max(0, kill.Sub(g.stoppedAt))))
	}
}

// sayStopping tells how the command is being stopped. term is left out if TERM could
// not be sent.
func (g *leaseGuard) sayStopping(why string, err error, term, kill string) {
	if err == nil {
		g.j.say("lost %q: %s; stopping %s (%s%s)", g.j.name, why, g.j.me.Command, term, kill)
		return
	}
	how := ""
	if kill != "" {
		how = " (" + kill + ")"
	}
	g.j.say("lost %q: %s; TERM cannot be sent to %s: %s%s", g.j.name, why, g.j.me.Command, oneLine(err), how)
}

// warnUnreachable says, before the command starts, which of its processes pawl will not
// be able to end.
func (j *job) warnUnreachable(what string) {
	j.sayUnlessQuiet("warning: %s cannot be ended if %q is lost: there is no /proc here, no cgroup can be made, and orphans cannot be adopted", what, j.name)
	j.messages.waitAtMost(time.Second)
}

func (g *leaseGuard) kill() {
	_ = g.child.signalAll(syscall.SIGKILL)
	if g.kills++; g.kills > 20 { // the guardian should have reported the end by now
		g.child.killGuardian()
	}
	g.killAt = time.Now().Add(50 * time.Millisecond) // repeated until nothing is left
}

// handleSignal forwards a signal. It checks the lease first, because the signal may
// have resumed pawl after a long stop.
func (g *leaseGuard) handleSignal(sig os.Signal) {
	if g.lease.Err() != nil && !g.contextSeen {
		g.contextEnded()
	}
	if n, ok := sig.(syscall.Signal); ok {
		g.child.forward(n)
	}
}

// afterExit finishes after the command has ended: if the command had to be stopped,
// its descendants are killed too. Pawl may have been stalled and not know yet that
// the lock is lost.
func (g *leaseGuard) afterExit() {
	j := g.j
	survived := g.child.finish(j.onLost == "kill" && (g.lost || g.lease.Err() != nil))
	switch {
	case survived:
		j.say("not all processes of %s could be ended; they may run on", j.me.Command)
	case g.lost:
		j.sayUnlessQuiet("command ended %s after the loss; exit %d", claimview.Brief(time.Since(g.stoppedAt)), exitLost)
	case g.child.killedLate.Load():
		j.say("the guardian has ended %s: it was not told in time that the lock is still held", j.me.Command)
	}
}
