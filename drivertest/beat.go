package drivertest

import (
	"errors"
	"fmt"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// beatCases check that Beat prolongs claims, and only claims that exist.
var beatCases = []lawCase{
	{name: "beaten claims outlive their TTL", law: 15, run: beatKeeps,
		why: "A holds and B waits for three TTLs, both beaten: nothing changes."},
	{name: "Beat answers for each claim alone", law: 15, run: beatAlone,
		why: "One of a hundred claims was evicted: Beat says that one is gone, and prolongs the other ninety-nine."},
	{name: "Beat does not revive an expired claim", law: 15, run: beatExpired,
		why: "A stalls past its expiry and beats again: whether or not another claim holds by then, A's claim stays ended."},
	{name: "Beat does not revive a left claim", law: 15, run: beatLeft,
		why: "A Beat arrives after the Leave of its claim: it must not bring the claim back."},
	{name: "Beat does not create a claim", law: 15, run: beatUnknown,
		why: "A claim whose Enter never arrived is gone; Beat must not create it."},
	{name: "Beat with no claims keeps the session", law: 15, run: beatNothing,
		why: "The core beats every open session, even without claims: the session can be used after its TTL."},
	{name: "granting does not shorten a claim's life", law: 4, needs: needs{queue: true}, run: grantKeepsExpiry,
		why: "B is beaten, is granted half a TTL later and then falls silent: it holds until the time that the beat promised."},
	{name: "a claim lives as long as was promised", law: 8, run: livesAsPromised,
		why: "Another claim must not be held before Valid has passed since just before Enter was sent."},
	{name: "a waiter that is not beaten loses its place", law: 2, needs: needs{queue: true}, run: unbeatenWaiter,
		why: "A holds, B waits and is not beaten: B's place ends at its expiry, and a late beat does not bring it back."},
}

// withLongerTTLs runs try with increasing TTLs until it reports true. try reports
// false if the machine stalled long enough for claims to expire legitimately.
func withLongerTTLs(f *fixture, try func(ttl time.Duration) bool) {
	ttl := f.ttl
	for range 5 {
		if try(ttl) {
			return
		}
		ttl = f.doubled(ttl)
	}
	f.Fatalf("the machine stalls for longer than a TTL of %v: no verdict", ttl/2)
}

func beatKeeps(f *fixture) {
	withLongerTTLs(f, func(ttl time.Duration) bool {
		a, b := f.openTTL(ttl), f.openTTL(ttl)
		defer b.close()
		defer a.close()
		ca, cb := f.claim(), f.claim()
		ca.Name += "/" + newID()
		cb.Name = ca.Name
		entered := time.Now()
		a.mustHold(ca)
		live := []driver.Claim{cb}
		if f.can.Queue {
			b.mustWait(cb)
		} else {
			live = nil
		}
		return beatInTime(f, a, b, ca, live, entered)
	})
}

// beatInTime beats for three TTLs. It reports false if any beat, including the
// first one after Enter, was late because the machine stalled.
func beatInTime(f *fixture, a, b *session, ca driver.Claim, cb []driver.Claim, last time.Time) bool {
	ttl := min(a.TTL(), b.TTL())
	for start := time.Now(); time.Since(start) < 3*ttl; {
		time.Sleep(ttl / 4)
		sent := time.Now()
		outA, errA := a.tryBeat(f.ctx, ca)
		outB, errB := b.tryBeat(f.ctx, cb...)
		if time.Since(last) > ttl*3/4 {
			return false
		}
		last = sent
		if errA != nil || errB != nil {
			f.Fatalf("Beat: %v, %v", errA, errB)
		}
		for _, st := range append(outA, outB...) {
			if st.Gone {
				f.Fatalf("a claim that was beaten every %v of %v is gone", ttl/4, ttl)
			}
			if st.Valid > ttl {
				f.Errorf("Beat promises %v with a TTL of %v", st.Valid, ttl)
			}
		}
	}
	return true
}

func beatAlone(f *fixture) {
	const n, broken = 100, 37
	a := f.open()
	cs := make([]driver.Claim, n)
	for i := range cs {
		cs[i] = withName(f.claim(), fmt.Sprintf("%s/%03d", f.name, i))
		a.mustHold(cs[i])
	}
	f.evict(f.entry(cs[broken]))
	out := a.mustBeat(cs...)
	if len(out) != n {
		f.Fatalf("%d answers for %d claims", len(out), n)
	}
	for i, st := range out {
		if gone := i == broken; st.Gone != gone {
			f.Errorf("claim %d of %d: %+v; only claim %d was evicted", i, n, st, broken)
		}
		if st.Held && i == broken {
			f.Errorf("an evicted claim is held: %+v", st)
		}
	}
	if got := len(f.line()); got != n-1 {
		f.Errorf("%d claims are listed after one of %d was evicted", got, n)
	}
}

func beatExpired(f *fixture) {
	a, b := f.openShort(), f.open()
	mine, lone := f.claim(), withName(f.claim(), f.name+"/lone")
	a.mustHold(mine)
	a.mustHold(lone)
	_, _, err := b.acquire(f.ctx, f.claim()) // returns once A's claim has expired
	if err != nil {
		f.Fatalf("taking what has expired: %v", err)
	}
	f.expectGone(lone, a.TTL())
	for range 2 {
		if !a.ended(mine) || !a.ended(lone) {
			f.Errorf("Beat revives a claim that has expired")
		}
	}
	if st, err := a.tryEnter(f.ctx, withoutQueue(nextTry(mine))); err == nil && st.Held {
		f.Errorf("A holds it beside B: %+v", st)
	}
	if left := f.list(lone.Name); len(left) > 0 {
		f.Errorf("an expired claim is listed again after a beat: %+v", left)
	}
}

// expectGone waits until c is no longer listed. c must disappear soon after its
// TTL.
func (f *fixture) expectGone(c driver.Claim, ttl time.Duration) {
	f.Helper()
	f.eventually(3*ttl+soon, "the end of a claim", func() bool { return len(f.list(c.Name)) == 0 })
}

func beatLeft(f *fixture) {
	a, b := f.open(), f.open()
	left, kept := f.claim(), withName(f.claim(), f.name+"/kept")
	a.mustHold(left)
	a.mustHold(kept)
	a.mustLeave(left)
	out := a.mustBeat(left, kept)
	if !out[0].Gone || out[0].Held {
		f.Errorf("Beat of a claim that was left: %+v, not gone", out[0])
	}
	if out[1].Gone {
		f.Errorf("Beat of a claim that is held: %+v", out[1])
	}
	b.mustHold(withoutQueue(f.claim()))
}

func beatUnknown(f *fixture) {
	a := f.open()
	c := f.claim()
	if out := a.mustBeat(c); !out[0].Gone || out[0].Held {
		f.Errorf("Beat of a claim that never entered: %+v, not gone", out[0])
	}
	f.expectLine("a claim that never entered was beaten")
	a.mustHold(withoutQueue(f.claim()))
}

func beatNothing(f *fixture) {
	withLongerTTLs(f, func(ttl time.Duration) bool {
		a := f.openTTL(ttl)
		stalled := false
		last := a.opened
		for range 6 {
			time.Sleep(a.TTL() / 4)
			sent := time.Now()
			_, err := a.tryBeat(f.ctx)
			stalled = stalled || time.Since(last) > a.TTL()*3/4
			last = sent
			if err != nil && !stalled {
				f.Fatalf("Beat of a session without claims: %v", err)
			}
		}
		st, err := a.tryEnter(f.ctx, f.claim())
		if stalled || time.Since(last) > a.TTL()*3/4 {
			a.close()
			return false
		}
		if err != nil || !st.Held {
			f.Fatalf("Enter in a session that was beaten without claims: %+v, %v", st, err)
		}
		select {
		case <-a.Lost(): // nil if the engine does not report lost sessions
			f.Error("Lost is closed and the session lives")
		default:
		}
		return true
	})
}

func grantKeepsExpiry(f *fixture) {
	withLongerTTLs(f, func(ttl time.Duration) bool { return tryGrant(f, ttl) })
}

// tryGrant returns false if the waiter expired because the machine stalled.
func tryGrant(f *fixture, ttl time.Duration) bool {
	a, b, c := f.open(), f.openTTL(ttl), f.open()
	ca, cb, cc := f.claim(), f.claim(), f.claim()
	ca.Name += "/" + newID()
	cb.Name, cc.Name = ca.Name, ca.Name
	a.mustHold(ca)
	b.mustWait(cb)
	last := c.mustWait(cc)
	sent := time.Now()
	out, err := b.tryBeat(f.ctx, cb)
	if errors.Is(err, driver.ErrGone) || err == nil && out[0].Gone {
		a.close()
		b.close()
		c.close()
		return false
	}
	if err != nil {
		f.Fatalf("Beat: %v", err)
	}
	until := sent.Add(b.TTL())
	if out[0].Valid > 0 {
		until = sent.Add(out[0].Valid)
	}
	b.crash()
	time.Sleep(b.TTL() / 2)
	a.mustLeave(ca)
	if _, err := c.awaitHeld(f.ctx, cc, last); err != nil {
		f.Fatalf("Await behind a dead waiter that was granted: %v", err)
	}
	if early := time.Until(until); early > 0 {
		f.Errorf("the next claim is held %v before the time promised to the one before it has passed (TTL %v)", early, b.TTL())
	}
	return true
}

func livesAsPromised(f *fixture) {
	a, b := f.openShort(), f.open()
	sent := time.Now()
	until := a.validUntil(sent, a.mustHold(f.claim()))
	answered := time.Now()
	a.crash()
	_, _, err := b.acquire(f.ctx, f.claim())
	if err != nil {
		f.Fatalf("taking what has expired: %v", err)
	}
	if early := time.Until(until); early > 0 {
		f.Errorf("another claim is held %v before the promised end (TTL %v)", early, a.TTL())
	}
	if late := time.Since(answered); late > 3*a.TTL()+soon {
		f.Errorf("another claim is held only %v after the last call of a claim with a TTL of %v", late, a.TTL())
	}
}

func unbeatenWaiter(f *fixture) {
	a, b, c := f.open(), f.openShort(), f.open()
	ca, cb, cc := f.claim(), f.claim(), f.claim()
	a.mustHold(ca)
	b.mustWait(cb)
	c.mustWait(cc)
	f.eventually(3*b.TTL()+soon, "the end of a waiter that is not beaten", func() bool { return len(f.line()) == 2 })
	if !b.ended(cb) {
		f.Errorf("Beat brings an expired waiter back")
	}
	f.expectLine("B was not beaten", ca, cc)
}
