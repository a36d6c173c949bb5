package drivertest

import (
	"time"

	"github.com/pawl-go/pawl/driver"
)

// crashCases end clients without a Close.
var crashCases = []lawCase{
	{name: "a dead holder ends at its expiry", law: 2, run: deadHolder,
		why: "A crashes while holding; B, without queueing, and C, in line, both hold later, but not before A's expiry."},
	{name: "a dead waiter at the head ends at its expiry", law: 2, needs: needs{queue: true}, run: deadWaiter,
		why: "B waits and dies, A leaves: the turn is B's until its expiry, then it is C's."},
	{name: "a dead waiter does not keep out those who only try", law: 2, needs: needs{queue: true}, run: deadWaiterTry,
		why: "If nobody removes the crashed waiter's place, claims that do not queue would be refused for ever."},
	{name: "a dead writer in line does not keep readers out", law: 2, needs: needs{queue: true, shared: true}, run: deadWriterInLine,
		why: "A reader holds throughout, a writer waits and crashes: after its expiry, readers that do not queue hold again, although nobody leaves."},
	{name: "the death of one session costs no other", law: 14, run: deathAlone,
		why: "Two sessions of one client: one dies, the other's claims live on."},
	{name: "a dead client's units come back", law: 2, needs: needs{count: true}, run: deadUnits,
		why: "Two of three units are held by a dead client: both are available again after its expiry, and the living one keeps its own."},
}

func deadHolder(f *fixture) {
	a, b := f.openShort(), f.open()
	sent := time.Now()
	until := a.validUntil(sent, a.mustHold(f.claim()))
	a.crash()
	held, _, err := b.acquire(f.ctx, withoutQueue(f.claim()))
	if err != nil {
		f.Fatalf("trying for what a dead client held: %v", err)
	}
	if early := time.Until(until); early > 0 {
		f.Errorf("one who only tries holds %v before the dead holder's time was over", early)
	}
	b.mustLeave(held)
}

func deadWaiter(f *fixture) {
	a, b, c := f.open(), f.openShort(), f.open()
	ca, cb, cc := f.claim(), f.claim(), f.claim()
	a.mustHold(ca)
	sent := time.Now()
	until := b.validUntil(sent, b.mustWait(cb))
	last := c.mustWait(cc)
	b.crash()
	a.mustLeave(ca)
	left := time.Now()
	if _, err := c.awaitHeld(f.ctx, cc, last); err != nil {
		f.Fatalf("Await behind a dead waiter: %v", err)
	}
	if early := time.Until(until); early > 0 {
		f.Errorf("C holds %v before the time of B, ahead of it, was over", early)
	}
	if late := time.Since(left); late > 3*b.TTL()+soon {
		f.Errorf("C holds only %v after A left; B, between them, had a TTL of %v", late, b.TTL())
	}
}

func deadWaiterTry(f *fixture) {
	a, b, c := f.open(), f.openShort(), f.open()
	ca, cb := f.claim(), f.claim()
	a.mustHold(ca)
	b.mustWait(cb)
	b.crash()
	a.mustLeave(ca)
	left := time.Now()
	if _, _, err := c.acquire(f.ctx, withoutQueue(f.claim())); err != nil {
		f.Fatalf("trying behind a dead waiter: %v", err)
	}
	if late := time.Since(left); late > 3*b.TTL()+soon {
		f.Errorf("one who only tries holds only %v after A left; the dead waiter's TTL was %v", late, b.TTL())
	}
}

func deadWriterInLine(f *fixture) {
	r, w, l := f.open(), f.openShort(), f.open()
	cr := f.reader()
	r.mustHold(cr)
	sent := time.Now()
	until := w.validUntil(sent, w.mustWait(f.writer()))
	w.crash()
	if _, _, err := l.acquire(f.ctx, withoutQueue(f.reader())); err != nil {
		f.Fatalf("a reader that only tries behind a dead writer: %v", err)
	}
	if early := time.Until(until); early > 0 {
		f.Errorf("a reader passed the waiting writer %v before its time was over", early)
	}
	if out := r.mustBeat(cr); out[0].Gone {
		f.Errorf("the reader that held throughout is gone")
	}
}

func deathAlone(f *fixture) {
	a, b := f.openShort(), f.open()
	mine, other := f.claim(), withName(f.claim(), f.name+"/other")
	a.mustHold(mine)
	held := b.mustHold(other)
	a.crash()
	c := f.open()
	if _, _, err := c.acquire(f.ctx, f.claim()); err != nil {
		f.Fatalf("taking what a dead client held: %v", err)
	}
	if out := b.mustBeat(other); out[0].Gone {
		f.Errorf("the claim of a living session went with another session")
	}
	if again := b.mustEnter(other); !again.Held || again.Token != held.Token {
		f.Errorf("the claim of a living session was %+v and is %+v", held, again)
	}
}

func deadUnits(f *fixture) {
	a, b := f.openShort(), f.open()
	kept := f.claimOf(1, 3)
	b.mustHold(kept)
	a.mustHold(f.claimOf(1, 3))
	a.mustHold(f.claimOf(1, 3))
	a.crash()
	var got []driver.Claim
	for range 2 {
		c, _, err := b.acquire(f.ctx, f.claimOf(1, 3))
		if err != nil {
			f.Fatalf("taking a dead client's unit: %v", err)
		}
		got = append(got, c)
	}
	b.mustNotHold(f.claimOf(1, 3))
	f.expectLine("a client with two of three units died", append([]driver.Claim{kept}, got...)...)
}
