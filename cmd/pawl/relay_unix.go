//go:build unix

package main

import (
	"slices"
	"syscall"
	"time"
)

// An arrival is a signal that came to us, to the guardian, or to both.
type arrival struct {
	sig syscall.Signal
	at  int
}

const (
	atUs = 1 << iota
	atGuardian
	atBoth = atUs | atGuardian
)

// pass takes in a signal that was sent to us, for the command.
func (c *child) pass(sig syscall.Signal) { c.arrive(arrival{sig, atUs}) }

func (c *child) arrive(a arrival) {
	select {
	case c.arrivals <- a:
	case <-c.over:
	}
}

// relay passes signals on to the command, each once. The command has what was sent to
// all of us: with a terminal to the group, as Ctrl-C is, and what timeout sends; without
// one to every process of a service, as systemd does. That came to the guardian as well.
// What came to only one of us was meant for the command and has not reached it.
func (c *child) relay() {
	var next []arrival
	for {
		now := c.gather(next)
		if now == nil {
			return
		}
		now, next = c.ask(now)
		for _, a := range now {
			if a.at != atBoth {
				c.signal(a.sig)
			}
		}
	}
}

// together is how long signals are collected before they are passed on. One that comes
// to us twice in that time, as from timeout, is one, as it would be if the kernel had
// held the first one back.
const together = 10 * time.Millisecond

// gather waits for a signal, and for what comes with it; nil: the command has ended.
func (c *child) gather(got []arrival) []arrival {
	var timer <-chan time.Time
	for {
		if len(got) > 0 && timer == nil {
			timer = time.After(together)
		}
		select {
		case a := <-c.arrivals:
			got = add(got, a)
		case <-timer:
			return got
		case <-c.over:
			return nil
		}
	}
}

// apart is how far apart a signal may come to us and to the guardian, on a machine that
// is busy with other things. What was sent to one of us comes so much later; without a
// terminal, where that is the rule, as little as can be.
const apart = 250 * time.Millisecond

// ask finds out what of now came to both of us. The guardian tells of what it has, and
// for what is missing here or there we wait a little. What comes to one of us a second
// time is the next round's.
func (c *child) ask(now []arrival) (_, next []arrival) {
	c.asked++
	_ = c.link.send("ask", c.asked)
	wait := apart
	if c.own {
		wait = together
	}
	late, answered := time.After(wait), false
	silent := time.After(time.Second) // a guardian that stands still keeps no signal back
	for over := false; !over || !answered; {
		if answered && !slices.ContainsFunc(now, func(a arrival) bool { return a.at != atBoth }) {
			break
		}
		select {
		case a := <-c.arrivals:
			i := slices.IndexFunc(now, func(b arrival) bool { return b.sig == a.sig && b.at&a.at == 0 })
			if i >= 0 {
				now[i].at |= a.at
			} else {
				next = add(next, a)
			}
		case n := <-c.answers:
			answered = answered || n == c.asked
		case <-late:
			over = true
		case <-silent:
			return now, next
		case <-c.over:
			return nil, nil
		}
	}
	return now, next
}

// add adds an arrival to those of its kind.
func add(all []arrival, a arrival) []arrival {
	for i := range all {
		if all[i].sig == a.sig {
			all[i].at |= a.at
			return all
		}
	}
	return append(all, a)
}
