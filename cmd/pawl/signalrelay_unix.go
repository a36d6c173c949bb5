//go:build unix

package main

import (
	"slices"
	"syscall"
	"time"
)

// A receivedSignal is a signal that was received by pawl, by the guardian, or by
// both.
type receivedSignal struct {
	sig syscall.Signal
	at  int
}

const (
	atPawl = 1 << iota
	atGuardian
	atBoth = atPawl | atGuardian
)

// forward takes a signal that pawl received and that is meant for the command.
func (c *child) forward(sig syscall.Signal) { c.receive(receivedSignal{sig, atPawl}) }

func (c *child) receive(r receivedSignal) {
	select {
	case c.received <- r:
	case <-c.ended:
	}
}

// forwardSignals sends each signal to the command exactly once. A signal that was
// sent to all processes has already reached the command: with a terminal those are
// the signals to the process group, such as Ctrl-C and what timeout sends; without
// one the signals to every process of a service, such as systemd's. The guardian
// received them too. A signal that only one of the two received was meant for the
// command and has not reached it.
func (c *child) forwardSignals() {
	var next []receivedSignal
	for {
		now := c.collect(next)
		if now == nil {
			return
		}
		now, next = c.matchWithGuardian(now)
		for _, r := range now {
			if r.at != atBoth {
				c.signal(r.sig)
			}
		}
	}
}

// collectFor is how long signals are collected before they are forwarded.
// Duplicates within that time, as timeout sends them, count as one, just as the
// kernel merges pending signals.
const collectFor = 10 * time.Millisecond

// collect waits for a signal and for those that arrive with it; nil: the command
// has ended.
func (c *child) collect(got []receivedSignal) []receivedSignal {
	var timer <-chan time.Time
	for {
		if len(got) > 0 && timer == nil {
			timer = time.After(collectFor)
		}
		select {
		case r := <-c.received:
			got = addSignal(got, r)
		case <-timer:
			return got
		case <-c.ended:
			return nil
		}
	}
}

// maxSkew is the maximum time between the arrival of a signal at pawl and at the
// guardian, on a busy machine. Signals to only one of them are delayed by this;
// without a terminal, where most signals go to pawl alone, only by collectFor.
const maxSkew = 250 * time.Millisecond

// matchWithGuardian finds the signals of now that both processes received. It makes
// the guardian report its signals and waits a little for those that only one has. A
// second signal of the same kind to the same process is left for the next round.
func (c *child) matchWithGuardian(now []receivedSignal) (_, next []receivedSignal) {
	c.lastSync++
	_ = c.conn.send("sync", c.lastSync)
	wait := maxSkew
	if c.ownGroup {
		wait = collectFor
	}
	late, answered := time.After(wait), false
	silent := time.After(time.Second) // a stalled guardian must not block signals
	for over := false; !over || !answered; {
		if answered && !slices.ContainsFunc(now, func(r receivedSignal) bool { return r.at != atBoth }) {
			break
		}
		select {
		case r := <-c.received:
			i := slices.IndexFunc(now, func(b receivedSignal) bool { return b.sig == r.sig && b.at&r.at == 0 })
			if i >= 0 {
				now[i].at |= r.at
			} else {
				next = addSignal(next, r)
			}
		case n := <-c.syncReplies:
			answered = answered || n == c.lastSync
		case <-late:
			over = true
		case <-silent:
			return now, next
		case <-c.ended:
			return nil, nil
		}
	}
	return now, next
}

// addSignal adds r, merged with signals of the same kind.
func addSignal(all []receivedSignal, r receivedSignal) []receivedSignal {
	for i := range all {
		if all[i].sig == r.sig {
			all[i].at |= r.at
			return all
		}
	}
	return append(all, r)
}
