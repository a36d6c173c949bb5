package drivertest

import (
	"errors"
	"fmt"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// beatCases are about what keeps claims alive.
var beatCases = []lawCase{
	{name: "beaten claims outlive their TTL", law: 15, run: beatKeeps,
		why: "A holds and B waits for three TTLs, both beaten: nothing changes."},
	{name: "Beat answers for each claim alone", law: 15, run: beatAlone,
		why: "One of a hundred claims was evicted: Beat says that one is gone, and prolongs the other ninety-nine."},
	{name: "Beat does not revive an expired claim", law: 15, run: beatExpired,
		why: "A stalls past its expiry and beats again: with a rival holding, or with nobody there, its claim stays ended."},
	{name: "Beat does not revive a left claim", law: 15, run: beatLeft,
		why: "A beat under way while its claim is left lands afterwards: it must not bring the claim back."},
	{name: "Beat does not create a claim", law: 15, run: beatUnknown,
		why: "A claim whose Enter never arrived is gone, and is not made by a beat."},
	{name: "Beat with no claims keeps the session", law: 15, run: beatNothing,
		why: "Every open session is beaten, also one without claims: it can be used after its TTL."},
	{name: "granting does not shorten a claim's life", law: 4, needs: needs{queue: true}, run: grantKeepsExpiry,
		why: "B is beaten, then granted when half of that is over, and says nothing more: it holds until the beat's promise ends."},
	{name: "a claim lives as long as was promised", law: 8, run: livesAsPromised,
		why: "A rival must not hold before the moment just before Enter was sent plus Valid."},
	{name: "a waiter that is not beaten loses its place", law: 2, needs: needs{queue: true}, run: unbeatenWaiter,
		why: "A waits long, B in line behind it dies: its place goes at its expiry, and its late beat does not bring it back."},
}

// inTime tries with longer and longer TTLs until the machine did not stall so long
// that claims had reason to expire.
func inTime(s *stage, try func(ttl time.Duration) bool) {
	ttl := s.ttl
	for range 3 {
		if try(ttl) {
			return
		}
		ttl = s.twice(ttl)
	}
	s.Fatalf("the machine stalls for longer than a TTL of %v: nothing can be said", ttl/2)
}

func beatKeeps(s *stage) {
	inTime(s, func(ttl time.Duration) bool {
		a, b := s.joinFor(ttl), s.joinFor(ttl)
		defer b.shut()
		defer a.shut()
		ca, cb := s.claim(), s.claim()
		ca.Name += "/" + newID()
		cb.Name = ca.Name
		entered := time.Now()
		a.hold(ca)
		live := []driver.Claim{cb}
		if s.can.Queue {
			b.stand(cb)
		} else {
			live = nil
		}
		return keepUp(s, a, b, ca, live, entered)
	})
}

// keepUp beats for three TTLs and reports whether it was always in time, also
// with the first beat after the claims were entered.
func keepUp(s *stage, a, b *player, ca driver.Claim, cb []driver.Claim, last time.Time) bool {
	ttl := min(a.TTL(), b.TTL())
	for start := time.Now(); time.Since(start) < 3*ttl; {
		time.Sleep(ttl / 4)
		sent := time.Now()
		outA, errA := a.pulse(s.ctx, ca)
		outB, errB := b.pulse(s.ctx, cb...)
		if time.Since(last) > ttl*3/4 {
			return false
		}
		last = sent
		if errA != nil || errB != nil {
			s.Fatalf("Beat: %v, %v", errA, errB)
		}
		for _, st := range append(outA, outB...) {
			if st.Gone {
				s.Fatalf("a claim that was beaten every %v of %v is gone", ttl/4, ttl)
			}
			if st.Valid > ttl {
				s.Errorf("Beat promises %v with a TTL of %v", st.Valid, ttl)
			}
		}
	}
	return true
}

func beatAlone(s *stage) {
	const n, broken = 100, 37
	a := s.join()
	cs := make([]driver.Claim, n)
	for i := range cs {
		cs[i] = named(s.claim(), fmt.Sprintf("%s/%03d", s.name, i))
		a.hold(cs[i])
	}
	s.evict(s.entry(cs[broken]))
	out := a.beat(cs...)
	if len(out) != n {
		s.Fatalf("%d answers for %d claims", len(out), n)
	}
	for i, st := range out {
		if gone := i == broken; st.Gone != gone {
			s.Errorf("claim %d of %d: %+v; only claim %d was evicted", i, n, st, broken)
		}
		if st.Held && i == broken {
			s.Errorf("an evicted claim is held: %+v", st)
		}
	}
	if got := len(s.line()); got != n-1 {
		s.Errorf("%d claims are listed after one of %d was evicted", got, n)
	}
}

func beatExpired(s *stage) {
	a, b := s.joinBriefly(), s.join()
	mine, lone := s.claim(), named(s.claim(), s.name+"/lone")
	a.hold(mine)
	a.hold(lone)
	_, _, err := b.take(s.ctx, s.claim()) // comes back when A's time is over
	if err != nil {
		s.Fatalf("taking what has expired: %v", err)
	}
	s.expectGone(lone, a.TTL())
	for range 2 {
		if !a.ended(mine) || !a.ended(lone) {
			s.Errorf("Beat revives a claim that has expired")
		}
	}
	if st, err := a.ask(s.ctx, tries(next(mine))); err == nil && st.Held {
		s.Errorf("A holds it beside B: %+v", st)
	}
	if left := s.list(lone.Name); len(left) > 0 {
		s.Errorf("an expired claim is listed again after a beat: %+v", left)
	}
}

// expectGone waits until c is no longer listed, which must be soon after its TTL.
func (s *stage) expectGone(c driver.Claim, ttl time.Duration) {
	s.Helper()
	s.eventually(3*ttl+soon, "the end of a claim", func() bool { return len(s.list(c.Name)) == 0 })
}

func beatLeft(s *stage) {
	a, b := s.join(), s.join()
	left, kept := s.claim(), named(s.claim(), s.name+"/kept")
	a.hold(left)
	a.hold(kept)
	a.leave(left)
	out := a.beat(left, kept)
	if !out[0].Gone || out[0].Held {
		s.Errorf("Beat of a claim that was left: %+v, not gone", out[0])
	}
	if out[1].Gone {
		s.Errorf("Beat of a claim that is held: %+v", out[1])
	}
	b.hold(tries(s.claim()))
}

func beatUnknown(s *stage) {
	a := s.join()
	c := s.claim()
	if out := a.beat(c); !out[0].Gone || out[0].Held {
		s.Errorf("Beat of a claim that never entered: %+v, not gone", out[0])
	}
	s.expectLine("a claim that never entered was beaten")
	a.hold(tries(s.claim()))
}

func beatNothing(s *stage) {
	inTime(s, func(ttl time.Duration) bool {
		a := s.joinFor(ttl)
		stalled := false
		last := a.opened
		for range 6 {
			time.Sleep(a.TTL() / 4)
			sent := time.Now()
			_, err := a.pulse(s.ctx)
			stalled = stalled || time.Since(last) > a.TTL()*3/4
			last = sent
			if err != nil && !stalled {
				s.Fatalf("Beat of a session without claims: %v", err)
			}
		}
		st, err := a.ask(s.ctx, s.claim())
		if stalled || time.Since(last) > a.TTL()*3/4 {
			a.shut()
			return false
		}
		if err != nil || !st.Held {
			s.Fatalf("Enter in a session that was beaten without claims: %+v, %v", st, err)
		}
		select {
		case <-a.Lost(): // nil where the engine has no such notice
			s.Error("Lost is closed and the session lives")
		default:
		}
		return true
	})
}

func grantKeepsExpiry(s *stage) {
	inTime(s, func(ttl time.Duration) bool { return tryGrant(s, ttl) })
}

// tryGrant returns false if the machine stalled until the waiter had expired.
func tryGrant(s *stage, ttl time.Duration) bool {
	a, b, c := s.join(), s.joinFor(ttl), s.join()
	ca, cb, cc := s.claim(), s.claim(), s.claim()
	ca.Name += "/" + newID()
	cb.Name, cc.Name = ca.Name, ca.Name
	a.hold(ca)
	b.stand(cb)
	last := c.stand(cc)
	sent := time.Now()
	out, err := b.pulse(s.ctx, cb)
	if errors.Is(err, driver.ErrGone) || err == nil && out[0].Gone {
		a.shut()
		b.shut()
		c.shut()
		return false
	}
	if err != nil {
		s.Fatalf("Beat: %v", err)
	}
	until := sent.Add(b.TTL())
	if out[0].Valid > 0 {
		until = sent.Add(out[0].Valid)
	}
	b.die()
	time.Sleep(b.TTL() / 2)
	a.leave(ca)
	if _, err := c.until(s.ctx, cc, last); err != nil {
		s.Fatalf("Await behind a dead waiter that was granted: %v", err)
	}
	if early := time.Until(until); early > 0 {
		s.Errorf("the next holds %v before the promise to the one before it ended (TTL %v)", early, b.TTL())
	}
	return true
}

func livesAsPromised(s *stage) {
	a, b := s.joinBriefly(), s.join()
	sent := time.Now()
	until := a.promise(sent, a.hold(s.claim()))
	answered := time.Now()
	a.die()
	_, _, err := b.take(s.ctx, s.claim())
	if err != nil {
		s.Fatalf("taking what has expired: %v", err)
	}
	if early := time.Until(until); early > 0 {
		s.Errorf("a rival holds %v before the promised end (TTL %v)", early, a.TTL())
	}
	if late := time.Since(answered); late > 3*a.TTL()+soon {
		s.Errorf("a rival holds only %v after a claim with a TTL of %v was last heard of", late, a.TTL())
	}
}

func unbeatenWaiter(s *stage) {
	a, b, c := s.join(), s.joinBriefly(), s.join()
	ca, cb, cc := s.claim(), s.claim(), s.claim()
	a.hold(ca)
	b.stand(cb)
	c.stand(cc)
	s.eventually(3*b.TTL()+soon, "the end of a waiter that is not beaten", func() bool { return len(s.line()) == 2 })
	if !b.ended(cb) {
		s.Errorf("Beat brings an expired waiter back")
	}
	s.expectLine("B was not beaten", ca, cc)
}
