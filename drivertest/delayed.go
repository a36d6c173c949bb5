package drivertest

import "github.com/pawl-go/pawl/driver"

// delayedCases delay the request of an Enter until its caller has given up on it.
// They run only if Harness.DelayEnter is set.
var delayedCases = []lawCase{
	{name: "an Enter that arrives after an eviction does not revive the claim", law: 15, delayed: true, run: lateAfterEvict,
		why: "Enter is delayed and repeated, the repeat is granted and evicted, B holds, and then the first request arrives: A's Beat must not mistake the late claim for the grant that was evicted."},
	{name: "an Enter that arrives when the rival has left does not revive the claim", law: 15, delayed: true, run: lateAfterRival,
		why: "Enter is delayed and repeated, the repeat is granted and evicted, B holds and leaves, and then the first request arrives and is granted: that is another grant, with a later token than B's."},
	{name: "an Enter that arrives after its Leave is ended by the next Leave", law: 14, delayed: true, run: lateAfterLeave,
		why: "Enter is delayed and repeated, the repeat is granted and left, B holds, and then the first request arrives: the core leaves again, and nothing of A may stay behind B."},
	{name: "an Enter that was left before it arrived is gone when its session is closed", law: 5, delayed: true, run: lateBeforeClose,
		why: "A gives an Enter up and leaves, which finds nothing; then the request arrives, and A's process ends: Close must end it, or B waits for a TTL."},
	{name: "an Enter that arrives after its session was closed blocks nobody", law: 5, delayed: true, run: lateAfterClose,
		why: "A gives an Enter up, leaves and closes the session, and then the request arrives: nobody beats that claim, and B waits for a TTL."},
	{name: "an Enter that is given up and closed blocks nobody", law: 5, delayed: true, run: lateAfterCloseAlone,
		why: "A gives an Enter up and closes the session without a Leave, and then the request arrives."},
}

// meetInLine makes a wait in line behind b once. An engine may use different
// requests for names on which it has seen contention and for names it expects to be
// free.
func (f *fixture) meetInLine(a, b *session) {
	f.Helper()
	if !f.can.Queue {
		return
	}
	ca, cb := f.claim(), f.claim()
	b.mustHold(cb)
	a.mustWait(ca)
	a.mustLeave(ca)
	b.mustLeave(cb)
}

// giveUp enters c with a request that reaches the store only when send is called.
func (s *session) giveUp(c driver.Claim) (send func() error) {
	s.f.Helper()
	send = s.f.h.DelayEnter(s.f.T, s.Session)
	if st, err := s.Enter(s.f.ctx, c); err == nil {
		s.f.Fatalf("Enter whose request is held up: %+v and no error", st)
	}
	s.used = true
	return send
}

// enterDelayed is giveUp for a request that the store does not refuse.
func (s *session) enterDelayed(c driver.Claim) (deliver func()) {
	s.f.Helper()
	send := s.giveUp(c)
	return func() {
		s.f.Helper()
		if err := send(); err != nil {
			s.f.Fatalf("the request that was held up: %v", err)
		}
	}
}

func lateAfterEvict(f *fixture) {
	a, b := f.open(), f.open()
	f.meetInLine(a, b)
	ca, cb := f.claim(), f.claim()
	deliver := a.enterDelayed(ca)
	a.mustHold(ca)
	f.evict(f.entry(ca))
	b.mustHold(cb)
	deliver()
	if st := a.mustBeat(ca)[0]; st.Held {
		f.Errorf("Beat says %+v of an evicted claim, and another holds the name", st)
	}
	if st := b.mustBeat(cb)[0]; !st.Held {
		f.Errorf("Beat says %+v of the holder", st)
	}
	_ = a.tryLeave(f.ctx, ca) // it may or may not find the delayed claim
	f.expectLine("after the late request was left", cb)
}

func lateAfterRival(f *fixture) {
	a, b := f.open(), f.open()
	f.meetInLine(a, b)
	ca, cb := f.claim(), f.claim()
	deliver := a.enterDelayed(ca)
	a.mustHold(ca)
	f.evict(f.entry(ca))
	b.mustHold(cb)
	b.mustLeave(cb)
	deliver()
	if st := a.mustBeat(ca)[0]; st.Held {
		f.Errorf("Beat says %+v of an evicted claim, and another has held the name since", st)
	}
	_ = a.tryLeave(f.ctx, ca)
	f.expectLine("after the late request was left")
	b.mustHold(f.claim())
}

func lateAfterLeave(f *fixture) {
	a, b := f.open(), f.open()
	f.meetInLine(a, b)
	ca, cb := f.claim(), f.claim()
	deliver := a.enterDelayed(ca)
	a.mustHold(ca)
	a.mustLeave(ca)
	b.mustHold(cb)
	deliver()
	_ = a.tryLeave(f.ctx, ca)
	f.expectLine("after the late request was left", cb)
	b.mustLeave(cb)
	b.mustHold(f.claim())
}

// giveUpAndClose makes a give up an Enter of a name that was never used, and one of a name
// that it has held, and calls end, which closes a and calls deliver in some order. Then b
// holds both.
func giveUpAndClose(f *fixture, end func(a *session, given []driver.Claim, deliver func())) {
	a, b := f.open(), f.open()
	f.meetInLine(a, b)
	given := []driver.Claim{f.claim(), withName(f.claim(), f.name+"/new")}
	before := f.claim()
	a.mustHold(before)
	a.mustLeave(before)
	var late []func() error
	for _, c := range given {
		late = append(late, a.giveUp(c))
	}
	end(a, given, func() {
		for _, send := range late {
			if err := send(); err != nil {
				f.Logf("the late request: %v", err) // a store may refuse what belongs to a session that has ended
			}
		}
	})
	for _, c := range given {
		b.mustHold(withName(f.claim(), c.Name))
	}
}

func lateBeforeClose(f *fixture) {
	giveUpAndClose(f, func(a *session, given []driver.Claim, deliver func()) {
		for _, c := range given {
			_ = a.tryLeave(f.ctx, c) // it may find nothing
		}
		deliver()
		a.close()
	})
}

func lateAfterClose(f *fixture) {
	giveUpAndClose(f, func(a *session, given []driver.Claim, deliver func()) {
		for _, c := range given {
			_ = a.tryLeave(f.ctx, c)
		}
		a.close()
		deliver()
	})
}

func lateAfterCloseAlone(f *fixture) {
	giveUpAndClose(f, func(a *session, _ []driver.Claim, deliver func()) {
		a.close()
		deliver()
	})
}
