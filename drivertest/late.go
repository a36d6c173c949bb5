package drivertest

import "github.com/pawl-go/pawl/driver"

// lateCases are about an Enter whose request is held up on its way and arrives when
// everybody has stopped waiting for it. They run where the harness has Late.
var lateCases = []lawCase{
	{name: "an Enter that arrives after an eviction does not revive the claim", law: 15, late: true, run: lateAfterEvict,
		why: "Enter is held up and repeated, the repeat is granted and evicted, B holds, and then the first request arrives: A's beat must not take what it left for the grant it had."},
	{name: "an Enter that arrives when the rival has left does not revive the claim", law: 15, late: true, run: lateAfterRival,
		why: "Enter is held up and repeated, the repeat is granted and evicted, B holds and leaves, and then the first request arrives and is granted: that is another grant, with a later token than B's."},
	{name: "an Enter that arrives after its Leave is ended by the next Leave", law: 14, late: true, run: lateAfterLeave,
		why: "Enter is held up and repeated, the repeat is granted and left, B holds, and then the first request arrives: the core leaves again, and nothing of A may stay behind B."},
}

// acquaint has a stand in line behind b and leave again: an engine may enter a name on
// which it has met others by another request than one that it takes for free.
func (s *stage) acquaint(a, b *player) {
	s.Helper()
	if !s.can.Queue {
		return
	}
	ca, cb := s.claim(), s.claim()
	b.hold(cb)
	a.stand(ca)
	a.leave(ca)
	b.leave(cb)
}

// enterLate enters c with a request that is held up until land.
func (p *player) enterLate(c driver.Claim) (land func()) {
	p.s.Helper()
	arrive := p.s.h.Late(p.s.T, p.Session)
	if st, err := p.Enter(p.s.ctx, c); err == nil {
		p.s.Fatalf("Enter whose request is held up: %+v and no error", st)
	}
	p.used = true
	return func() {
		p.s.Helper()
		if err := arrive(); err != nil {
			p.s.Fatalf("the request that was held up: %v", err)
		}
	}
}

func lateAfterEvict(s *stage) {
	a, b := s.join(), s.join()
	s.acquaint(a, b)
	ca, cb := s.claim(), s.claim()
	land := a.enterLate(ca)
	a.hold(ca)
	s.evict(s.entry(ca))
	b.hold(cb)
	land()
	if st := a.beat(ca)[0]; st.Held {
		s.Errorf("Beat says %+v of an evicted claim, and another holds the name", st)
	}
	if st := b.beat(cb)[0]; !st.Held {
		s.Errorf("Beat says %+v of the holder", st)
	}
	_ = a.quit(s.ctx, ca) // it may find what has arrived, or have found it before
	s.expectLine("after the late request was left", cb)
}

func lateAfterRival(s *stage) {
	a, b := s.join(), s.join()
	s.acquaint(a, b)
	ca, cb := s.claim(), s.claim()
	land := a.enterLate(ca)
	a.hold(ca)
	s.evict(s.entry(ca))
	b.hold(cb)
	b.leave(cb)
	land()
	if st := a.beat(ca)[0]; st.Held {
		s.Errorf("Beat says %+v of an evicted claim, and another has held the name since", st)
	}
	_ = a.quit(s.ctx, ca)
	s.expectLine("after the late request was left")
	b.hold(s.claim())
}

func lateAfterLeave(s *stage) {
	a, b := s.join(), s.join()
	s.acquaint(a, b)
	ca, cb := s.claim(), s.claim()
	land := a.enterLate(ca)
	a.hold(ca)
	a.leave(ca)
	b.hold(cb)
	land()
	_ = a.quit(s.ctx, ca)
	s.expectLine("after the late request was left", cb)
	b.leave(cb)
	b.hold(s.claim())
}
