package drivertest

import "github.com/pawl-go/pawl/driver"

// lateCases are about an Enter whose request is held up on its way and arrives when
// everybody has stopped waiting for it. They run where the harness has Late.
var delayedCases = []lawCase{
	{name: "an Enter that arrives after an eviction does not revive the claim", law: 15, delayed: true, run: lateAfterEvict,
		why: "Enter is held up and repeated, the repeat is granted and evicted, B holds, and then the first request arrives: A's beat must not take what it left for the grant it had."},
	{name: "an Enter that arrives when the rival has left does not revive the claim", law: 15, delayed: true, run: lateAfterRival,
		why: "Enter is held up and repeated, the repeat is granted and evicted, B holds and leaves, and then the first request arrives and is granted: that is another grant, with a later token than B's."},
	{name: "an Enter that arrives after its Leave is ended by the next Leave", law: 14, delayed: true, run: lateAfterLeave,
		why: "Enter is held up and repeated, the repeat is granted and left, B holds, and then the first request arrives: the core leaves again, and nothing of A may stay behind B."},
}

// acquaint has a stand in line behind b and leave again: an engine may enter a name on
// which it has met others by another request than one that it takes for free.
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

// enterLate enters c with a request that is held up until land.
func (s *session) enterLate(c driver.Claim) (land func()) {
	s.f.Helper()
	arrive := s.f.h.DelayEnter(s.f.T, s.Session)
	if st, err := s.Enter(s.f.ctx, c); err == nil {
		s.f.Fatalf("Enter whose request is held up: %+v and no error", st)
	}
	s.used = true
	return func() {
		s.f.Helper()
		if err := arrive(); err != nil {
			s.f.Fatalf("the request that was held up: %v", err)
		}
	}
}

func lateAfterEvict(f *fixture) {
	a, b := f.open(), f.open()
	f.meetInLine(a, b)
	ca, cb := f.claim(), f.claim()
	land := a.enterLate(ca)
	a.mustHold(ca)
	f.evict(f.entry(ca))
	b.mustHold(cb)
	land()
	if st := a.mustBeat(ca)[0]; st.Held {
		f.Errorf("Beat says %+v of an evicted claim, and another holds the name", st)
	}
	if st := b.mustBeat(cb)[0]; !st.Held {
		f.Errorf("Beat says %+v of the holder", st)
	}
	_ = a.tryLeave(f.ctx, ca) // it may find what has arrived, or have found it before
	f.expectLine("after the late request was left", cb)
}

func lateAfterRival(f *fixture) {
	a, b := f.open(), f.open()
	f.meetInLine(a, b)
	ca, cb := f.claim(), f.claim()
	land := a.enterLate(ca)
	a.mustHold(ca)
	f.evict(f.entry(ca))
	b.mustHold(cb)
	b.mustLeave(cb)
	land()
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
	land := a.enterLate(ca)
	a.mustHold(ca)
	a.mustLeave(ca)
	b.mustHold(cb)
	land()
	_ = a.tryLeave(f.ctx, ca)
	f.expectLine("after the late request was left", cb)
	b.mustLeave(cb)
	b.mustHold(f.claim())
}
