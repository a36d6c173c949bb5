package drivertest

import (
	"time"

	"github.com/pawl-go/pawl/driver"
)

// crashCases are about clients that die without a word.
var crashCases = []lawCase{
	{name: "a dead holder ends at its expiry", law: 2, run: deadHolder,
		why: "A dies holding; B, who only tries, and C, who waits, both get past it, and not before its time."},
	{name: "a dead waiter at the head ends at its expiry", law: 2, needs: needs{queue: true}, run: deadWaiter,
		why: "B waits and dies, A leaves: the turn is B's until its expiry, then it is C's."},
	{name: "a dead waiter does not keep out those who only try", law: 2, needs: needs{queue: true}, run: deadWaiterTry,
		why: "The mark of a dead waiter that nobody in line removes would keep out those who only try for ever."},
	{name: "a dead writer in line does not keep readers out", law: 2, needs: needs{queue: true, shared: true}, run: deadWriterInLine,
		why: "A reader holds throughout, a writer waits and dies: readers who only try come in again at its expiry, though nobody leaves."},
	{name: "the death of one session costs no other", law: 14, run: deathAlone,
		why: "Two sessions of one client: one dies, the other's claims live on."},
	{name: "a dead client's units come back", law: 2, needs: needs{count: true}, run: deadUnits,
		why: "Two of three units are held by a dead client: both are there again after its expiry, and the living one keeps its own."},
}

func deadHolder(s *stage) {
	a, b := s.joinBriefly(), s.join()
	sent := time.Now()
	until := a.promise(sent, a.hold(s.claim()))
	a.die()
	held, _, err := b.take(s.ctx, tries(s.claim()))
	if err != nil {
		s.Fatalf("trying for what a dead client held: %v", err)
	}
	if early := time.Until(until); early > 0 {
		s.Errorf("one who only tries holds %v before the dead holder's time was over", early)
	}
	b.leave(held)
}

func deadWaiter(s *stage) {
	a, b, c := s.join(), s.joinBriefly(), s.join()
	ca, cb, cc := s.claim(), s.claim(), s.claim()
	a.hold(ca)
	sent := time.Now()
	until := b.promise(sent, b.stand(cb))
	last := c.stand(cc)
	b.die()
	a.leave(ca)
	left := time.Now()
	if _, err := c.until(s.ctx, cc, last); err != nil {
		s.Fatalf("Await behind a dead waiter: %v", err)
	}
	if early := time.Until(until); early > 0 {
		s.Errorf("C holds %v before the time of B, ahead of it, was over", early)
	}
	if late := time.Since(left); late > 3*b.TTL()+soon {
		s.Errorf("C holds only %v after A left; B, between them, had a TTL of %v", late, b.TTL())
	}
}

func deadWaiterTry(s *stage) {
	a, b, c := s.join(), s.joinBriefly(), s.join()
	ca, cb := s.claim(), s.claim()
	a.hold(ca)
	b.stand(cb)
	b.die()
	a.leave(ca)
	left := time.Now()
	if _, _, err := c.take(s.ctx, tries(s.claim())); err != nil {
		s.Fatalf("trying behind a dead waiter: %v", err)
	}
	if late := time.Since(left); late > 3*b.TTL()+soon {
		s.Errorf("one who only tries holds only %v after A left; the dead waiter's TTL was %v", late, b.TTL())
	}
}

func deadWriterInLine(s *stage) {
	r, w, l := s.join(), s.joinBriefly(), s.join()
	cr := s.reader()
	r.hold(cr)
	sent := time.Now()
	until := w.promise(sent, w.stand(s.writer()))
	w.die()
	if _, _, err := l.take(s.ctx, tries(s.reader())); err != nil {
		s.Fatalf("a reader that only tries behind a dead writer: %v", err)
	}
	if early := time.Until(until); early > 0 {
		s.Errorf("a reader passed the waiting writer %v before its time was over", early)
	}
	if out := r.beat(cr); out[0].Gone {
		s.Errorf("the reader that held throughout is gone")
	}
}

func deathAlone(s *stage) {
	a, b := s.joinBriefly(), s.join()
	mine, other := s.claim(), named(s.claim(), s.name+"/other")
	a.hold(mine)
	held := b.hold(other)
	a.die()
	c := s.join()
	if _, _, err := c.take(s.ctx, s.claim()); err != nil {
		s.Fatalf("taking what a dead client held: %v", err)
	}
	if out := b.beat(other); out[0].Gone {
		s.Errorf("the claim of a living session went with another session")
	}
	if again := b.enter(other); !again.Held || again.Token != held.Token {
		s.Errorf("the claim of a living session was %+v and is %+v", held, again)
	}
}

func deadUnits(s *stage) {
	a, b := s.joinBriefly(), s.join()
	kept := s.claimOf(1, 3)
	b.hold(kept)
	a.hold(s.claimOf(1, 3))
	a.hold(s.claimOf(1, 3))
	a.die()
	var got []driver.Claim
	for range 2 {
		c, _, err := b.take(s.ctx, s.claimOf(1, 3))
		if err != nil {
			s.Fatalf("taking a dead client's unit: %v", err)
		}
		got = append(got, c)
	}
	b.denied(s.claimOf(1, 3))
	s.expectLine("a client with two of three units died", append([]driver.Claim{kept}, got...)...)
}
