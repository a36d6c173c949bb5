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
)

// under runs the command while the lease is held and returns its exit code, or
// ErrLost if it had to be stopped.
func (j *job) runUnderLease(lease *pawl.Lease, c *pawl.Client, program string, signals *signals) (int, error) {
	j.messages.waitAtMost(time.Second)  // what we say comes before what the command says
	if err := lease.Err(); err != nil { // we may have stood still since it was granted
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
	ch, err := start(cmd, livenessFile(c), signals.ignored, until)
	if _, ok := errors.AsType[*exitError](err); ok {
		return 0, err
	}
	if err != nil {
		if e, ok := errors.AsType[*fs.PathError](err); ok {
			err = e.Err // the path is said already
		}
		return 0, &exitError{exitNotExec, fmt.Errorf("%s: %w", j.argv[0], err)}
	}
	j.events.add(event{Event: "started", Name: j.name, Token: token(j.partOfName(lease).Token()), PID: ch.pid})
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

// liveFile is the file by which the local store sees that we live; the command
// inherits it, so that the lock of a killed pawl is free once the command is
// gone too, and not before.
func livenessFile(c *pawl.Client) *os.File {
	if e, ok := c.Engine().(interface{ LiveFile() *os.File }); ok {
		return e.LiveFile()
	}
	return nil
}

// A guard stops the command before its lease can pass to another. TERM goes out
// kill-after before the deadline, if nothing moved the deadline on by then, and
// KILL at the deadline; the guardian sends that too, in case we cannot.
type leaseGuard struct {
	j           *job
	lease       *pawl.Lease
	child       *child
	lost        bool      // TERM was sent, or would have been
	contextSeen bool      // the end of the lease's context was seen
	killAt      time.Time // zero: not to be killed
	stoppedAt   time.Time // of TERM
	kills       int
}

// next is when to look again.
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
	return time.NewTimer(min(time.Until(deadline.Add(-g.j.killAfter)), max(g.j.ttl/20, 50*time.Millisecond))) // by so much the guardian may be early
}

// loss is the lease's context until its end was seen.
func (g *leaseGuard) contextDone() <-chan struct{} {
	if g.contextSeen {
		return nil
	}
	return g.lease.Context().Done()
}

// look comes kill-after before the deadline, and again at it.
func (g *leaseGuard) checkDeadline() {
	now := time.Now()
	switch deadline := g.lease.Deadline(); {
	case !g.killAt.IsZero():
		if !now.Before(g.killAt) {
			g.kill()
		}
	case !g.lost && !now.Before(deadline.Add(-g.j.killAfter)):
		g.stopCommand(fmt.Sprintf("%s confirmed nothing for %s", g.j.store.shown, brief(g.j.ttl-time.Until(deadline))), deadline)
	}
}

// ended comes when the lease's context has: at the deadline, or because the
// store no longer knows the lock.
func (g *leaseGuard) contextEnded() {
	g.contextSeen = true
	why := strings.TrimPrefix(oneLine(context.Cause(g.lease.Context())), pawl.ErrLost.Error()+": ") // that is said anyhow
	deadline := g.lease.Deadline()
	switch {
	case !g.lost && time.Now().Before(deadline): // broken by an operator: somebody else may hold it now
		g.stopCommand(why, time.Now().Add(g.j.killAfter))
	case !g.lost:
		g.stopCommand(why, time.Now())
	case !g.killAt.IsZero():
		g.kill()
	}
}

// stop begins to stop the command.
func (g *leaseGuard) stopCommand(why string, kill time.Time) {
	g.lost, g.stoppedAt = true, time.Now()
	g.j.events.add(event{Event: "lost", Name: g.j.name, Token: token(g.j.partOfName(g.lease).Token()), Error: why})
	switch g.j.onLost {
	case "ignore":
		g.j.say("lost %q: %s; the command runs on (--on-lost ignore)", g.j.name, why)
	case "term":
		g.child.signalAll(syscall.SIGTERM)
		g.j.say("lost %q: %s; stopping %s (TERM)", g.j.name, why, g.j.me.Command)
	default: // first the command, then words: whoever reads them may have stopped
		g.child.signalAll(syscall.SIGTERM)
		g.child.setDeadline(kill)
		g.killAt = kill
		g.j.say("lost %q: %s; stopping %s (TERM, KILL in %s)", g.j.name, why, g.j.me.Command, brief(max(0, kill.Sub(g.stoppedAt))))
	}
}

func (g *leaseGuard) kill() {
	g.child.signalAll(syscall.SIGKILL)
	if g.kills++; g.kills > 20 { // somebody should have told us of the end
		g.child.killGuardian()
	}
	g.killAt = time.Now().Add(50 * time.Millisecond) // and again, until nobody is left
}

// signalled passes a signal on. One that woke us up may have come after a long
// stop: the lease is looked at first.
func (g *leaseGuard) handleSignal(sig os.Signal) {
	if g.lease.Err() != nil && !g.contextSeen {
		g.contextEnded()
	}
	if n, ok := sig.(syscall.Signal); ok {
		g.child.forward(n)
	}
}

// over is what is left to say and do once the command has ended: the descendants of
// one that had to be stopped must not go on either. We may have stood still, and not
// know yet that the lock is lost.
func (g *leaseGuard) afterExit() {
	j := g.j
	if j.onLost == "kill" && (g.lost || g.lease.Err() != nil) {
		g.child.killAll()
	}
	switch {
	case g.lost:
		j.sayUnlessQuiet("command ended %s after the loss; exit %d", brief(time.Since(g.stoppedAt)), exitLost)
	case g.child.killedLate.Load():
		j.say("the guardian has ended %s: it was not told in time that the lock is still held", j.me.Command)
	}
}
