//go:build unix

package main

import (
	"slices"
	"syscall"
	"time"
)

// An arrival is a signal that came to us, to the guardian, or to both.
type receivedSignal struct {
	sig syscall.Signal
	at  int
}

const (
	atPawl = 1 << iota
	atGuardian
	atBoth = atPawl | atGuardian
)

// pass takes in a signal that was sent to us, for the command.
func (c *child) forward(sig syscall.Signal) { c.receive(receivedSignal{sig, atPawl}) }

func (c *child) receive(r receivedSignal) {
	select {
	case c.received <- r:
	case <-c.ended:
	}
}

// relay passes signals on to the command, each once. The command has what was sent to
// all of us: with a terminal to the group, as Ctrl-C is, and what timeout sends; without
// one to every process of a service, as systemd does. That came to the guardian as well.
// What came to only one of us was meant for the command and has not reached it.
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

// together is how long signals are collected before they are passed on. One that comes
// to us twice in that time, as from timeout, is one, as it would be if the kernel had
// held the first one back.
const collectFor = 10 * time.Millisecond

// gather waits for a signal, and for what comes with it; nil: the command has ended.
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

// apart is how far apart a signal may come to us and to the guardian, on a machine that
// is busy with other things. What was sent to one of us comes so much later; without a
// terminal, where that is the rule, as little as can be.
const maxSkew = 250 * time.Millisecond

// ask finds out what of now came to both of us. The guardian tells of what it has, and
// for what is missing here or there we wait a little. What comes to one of us a second
// time is the next round's.
func (c *child) matchWithGuardian(now []receivedSignal) (_, next []receivedSignal) {
	c.lastSync++
	_ = c.conn.send("ask", c.lastSync)
	wait := maxSkew
	if c.ownGroup {
		wait = collectFor
	}
	late, answered := time.After(wait), false
	silent := time.After(time.Second) // a guardian that stands still keeps no signal back
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

// add adds an arrival to those of its kind.
func addSignal(all []receivedSignal, r receivedSignal) []receivedSignal {
	for i := range all {
		if all[i].sig == r.sig {
			all[i].at |= r.at
			return all
		}
	}
	return append(all, r)
}
