package pawl

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// maxTick bounds how long after waking from sleep a lease's context ends.
const maxTick = 100 * time.Millisecond

// maxFlying bounds the beats that are under way behind a stuck one.
const maxFlying = 4

const never = instant(math.MaxInt64)

// rhythm is when the keeper beats. A beat goes out every TTL/3 and is bounded by
// TTL/6; one that failed is repeated almost at once, and one that is stuck
// beyond its bound does not hold the next one up.
type rhythm struct {
	next   instant // when the next beat is due
	sent   instant // when the last was sent
	flying int     // beats that have not come back
	fails  int     // beats that failed in a row
}

// due says when the next beat may go out.
func (r *rhythm) due(ttl time.Duration) instant {
	switch {
	case r.flying >= maxFlying:
		return never // until one of them comes back
	case r.flying > 0:
		return max(r.next, r.sent.add(ttl/6))
	}
	return r.next
}

// A beat is one call of Beat with its buffers.
type beat struct {
	claims []*claim
	live   []driver.Claim // as they were when it was sent
	held   []bool
	out    []driver.Standing
	sent   instant
	lost   []loss
	told   []notice
}

// A notice is an event to be told once the session's mutex is free.
type notice struct {
	to Observer
	e  Event
}

// keep is the keeper: one goroutine per session. It ends leases at their
// deadlines and sends beats and repeated leaves, but never calls the driver
// itself, so that no stuck call can make a loss signal late.
func (s *session) keep() {
	defer s.c.keepers.Done()
	defer close(s.done)
	timer := time.NewTimer(s.ttl / 3)
	defer timer.Stop()
	idle, lost := s.c.now(), s.d.Lost()
	for {
		select {
		case <-timer.C:
		case <-s.wake:
		case <-lost:
			lost = nil
			s.die(errDead)
		case <-s.stop:
			s.finish()
			return
		}
		now := s.c.now()
		s.expire(now)
		s.launch(now)
		s.leaveDue(now)
		if s.inUse() {
			idle = now
		} else if s.ending() || now.sub(idle) >= max(2*s.ttl, time.Minute) {
			s.retire()
		}
		timer.Reset(max(0, s.nextLook(now).sub(now)))
	}
}

// nextLook says when the keeper must look again at the latest.
func (s *session) nextLook(now instant) instant {
	s.mu.Lock()
	defer s.mu.Unlock()
	look := now.add(max(s.ttl, time.Second)) // for idleness
	if s.dead {
		return look // only the stop is waited for
	}
	if s.beatableLocked() {
		look = min(look, s.rhythm.due(s.ttl))
	}
	if s.held > 0 {
		look = min(look, s.next)
	}
	// Whoever locks and unlocks over and over must not wake the keeper each time.
	s.ticking, s.granted = s.held > 0 || s.granted, false
	if s.ticking {
		look = min(look, now.add(min(s.margin, maxTick)))
	}
	for _, d := range s.leaving {
		look = min(look, d.due())
	}
	return look
}

// expire ends the holds whose deadline has passed.
func (s *session) expire(now instant) {
	s.mu.Lock()
	if s.held == 0 || now < s.next {
		s.mu.Unlock()
		return
	}
	var over []loss
	for _, cl := range s.live {
		if cl.state == held && now >= cl.deadline() {
			over = append(over, loss{cl: cl, why: cl.whyLocked(now)})
		}
	}
	s.mu.Unlock()
	s.lose(over...)
	s.mu.Lock()
	s.refreshLocked()
	s.mu.Unlock()
}

// refreshLocked computes the earliest deadline, also one that has passed and
// whose hold nobody has ended yet.
func (s *session) refreshLocked() {
	s.next = never
	for _, cl := range s.live {
		if cl.state == held {
			s.next = min(s.next, cl.deadline())
		}
	}
}

// beatableLocked reports whether there is anything to beat for. A session with
// renewal is beaten also without claims: in some stores it would end.
func (s *session) beatableLocked() bool {
	return !s.fixed || s.held < len(s.live)
}

// launch sends a beat if one is due.
func (s *session) launch(now instant) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := &s.rhythm
	if s.dead || !s.beatableLocked() || now < r.due(s.ttl) {
		return
	}
	b := s.spare
	s.spare = nil
	if b == nil {
		b = &beat{}
	}
	b.fill(s, now)
	r.flying++
	r.sent = now
	r.next = now.add(s.ttl / 6)      // should it be stuck; an answer moves it
	s.calls.Go(func() { s.beat(b) }) // finish waits for it
}

func (b *beat) fill(s *session, now instant) {
	b.sent = now
	b.claims, b.live, b.held, b.lost, b.told = b.claims[:0], b.live[:0], b.held[:0], b.lost[:0], b.told[:0]
	for _, cl := range s.live {
		if cl.state == entering || s.fixed && cl.state == held {
			continue
		}
		b.claims = append(b.claims, cl)
		b.live = append(b.live, cl.Claim)
		b.held = append(b.held, cl.state == held)
	}
	if cap(b.out) < len(b.live) {
		b.out = make([]driver.Standing, len(b.live), cap(b.live))
	}
	b.out = b.out[:len(b.live)]
	clear(b.out)
}

// beat makes one call of Beat and takes in what it answered.
func (s *session) beat(b *beat) {
	ctx, cancel := context.WithTimeout(s.ctx, s.ttl/6)
	err := s.d.Beat(ctx, b.live, b.out)
	cancel()
	if errors.Is(err, driver.ErrGone) {
		s.die(errDead)
		return
	}
	if err == nil {
		s.c.contacted.Store(true)
	}
	now := s.c.now()
	s.mu.Lock()
	learnt := s.takeLocked(b, now, err)
	s.rhythmLocked(b, now, err == nil && learnt)
	s.mu.Unlock()
	s.lose(b.lost...)
	for _, n := range b.told {
		n.to.Observe(n.e)
	}
	clear(b.claims) // a parted claim must not be kept from the collector
	s.mu.Lock()
	s.spare = b
	s.mu.Unlock()
	s.poke()
}

// takeLocked applies the answers, each to its claim alone, and reports whether
// every one was learnt. An answer about a claim that has since parted, or
// entered again, says nothing.
func (s *session) takeLocked(b *beat, now instant, err error) (learnt bool) {
	learnt = true
	if err == nil {
		s.heard = max(s.heard, b.sent)
	}
	for i, cl := range b.claims {
		st := b.out[i]
		if cl.state == ended || cl.ID != b.live[i].ID || cl.Try != b.live[i].Try {
			continue
		}
		switch {
		case cl.state == held && (st.Gone || st.Valid > 0 && (st.Held && st.Token != cl.fence || !st.Held && b.held[i])):
			// Gone, or replaced: an Enter that got no answer landed after the hold had
			// been evicted, and what the store prolongs now is a claim of the same ID
			// that waits, or that was let in later.
			b.lost = append(b.lost, loss{cl: cl, why: errBroken})
		case st.Gone:
			cl.interruptLocked()
		case st.Valid <= 0:
			learnt = false
			if cl.state == held && !cl.doubt {
				cl.doubt = true
				b.tell(cl, Event{Kind: InDoubt, Err: err})
			}
		case cl.state == held && now >= cl.deadline():
			b.lost = append(b.lost, loss{cl: cl, why: cl.whyLocked(now)}) // an answer that came too late prolongs nothing
		default:
			cl.doubt = false
			s.heard = max(s.heard, b.sent)
			s.promised = max(s.promised, b.sent.add(st.Valid)) // who lives by the session lives by this
			s.promiseLocked(cl, b.sent, st.Valid)
			if cl.state == held {
				b.tell(cl, Event{Kind: Renewed, Took: now.sub(b.sent)})
			} else if st.Held {
				cl.interruptLocked() // its turn came; whatever should have said so did not
			}
		}
	}
	s.refreshLocked()
	return learnt
}

func (s *session) rhythmLocked(b *beat, now instant, good bool) {
	r := &s.rhythm
	r.flying--
	if good {
		r.fails = 0
		r.next = max(r.next, b.sent.add(s.ttl/3))
		s.promised = max(s.promised, b.sent.add(s.ttl))
		return
	}
	pause := min(max(s.ttl/100, time.Millisecond)<<min(r.fails, 5), s.ttl/6)
	r.fails++
	r.next = min(r.next, now.add(pause))
}

// tell keeps an event for cl's observer until the mutex is free.
func (b *beat) tell(cl *claim, e Event) {
	if cl.o.observer == nil {
		return
	}
	e.Name, e.ID, e.Token = cl.Name, cl.ID, cl.tokenLocked()
	b.told = append(b.told, notice{cl.o.observer, e})
}
