package pawl

import (
	"context"
	"errors"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/claimset"
)

// maxTick bounds how long after waking from sleep a lease's context ends.
const maxTick = 100 * time.Millisecond

// keep is the keeper: one goroutine per session. It ends leases at their
// deadlines and sends beats and repeated Leaves, but never calls the driver
// itself, so that no stuck call can delay the end of a lease.
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
		if inUse, ending := s.use(); inUse {
			idle = now
		} else if ending || now.Sub(idle) >= max(2*s.ttl, time.Minute) {
			s.retire()
		}
		timer.Reset(max(0, s.nextLook(now).Sub(now)))
	}
}

// nextLook says when the keeper must look again at the latest.
func (s *session) nextLook(now instant) instant {
	s.mu.Lock()
	defer s.mu.Unlock()
	look := now.Add(max(s.ttl, time.Second)) // for idleness
	if s.set.Closed() {
		return look // only the stop is waited for
	}
	if s.set.Beatable() {
		look = min(look, s.schedule.due(s.ttl))
	}
	if s.set.Held() > 0 {
		look = min(look, s.set.Next())
	}
	// A caller that locks and unlocks over and over must not wake the keeper each time.
	s.ticking, s.granted = s.set.Held() > 0 || s.granted, false
	if s.ticking {
		look = min(look, now.Add(min(s.margin, maxTick)))
	}
	if s.leavers < maxLeavers { // else one that ends wakes the keeper
		look = min(look, s.departures.next())
	}
	return look
}

// expire ends the holds whose deadline has passed.
func (s *session) expire(now instant) {
	s.mu.Lock()
	if now < s.set.Next() {
		s.mu.Unlock()
		return
	}
	var over []loss
	for _, c := range s.set.Expired(now) {
		cl := c.Owner.(*claim)
		over = append(over, loss{cl: cl, why: cl.whyLocked(now)})
	}
	s.mu.Unlock()
	s.lose(over...)
	s.mu.Lock()
	s.set.Refresh()
	s.mu.Unlock()
}

// A beat is one call of Beat with its buffers.
type beat struct {
	claims []claimset.Query
	asked  []driver.Claim
	out    []driver.Standing
	sent   instant
	lost   []loss
	events []notice
}

// launch sends a beat if one is due.
func (s *session) launch(now instant) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.set.Closed() || !s.set.Beatable() || now < s.schedule.due(s.ttl) {
		return
	}
	b := s.newBeatLocked(now)
	s.calls.Go(func() { s.beat(b) }) // finish waits for it
}

// newBeatLocked prepares a beat for the claims that this round has not prolonged yet.
func (s *session) newBeatLocked(now instant) *beat {
	b := s.spare
	s.spare = nil
	if b == nil {
		b = &beat{}
	}
	if s.schedule.begin(now, s.ttl) {
		s.set.NextRound()
	}
	s.schedule.launched(now, s.ttl)
	b.sent = now
	b.claims = s.set.Query(b.claims[:0], now, s.ttl/5)
	b.asked, b.lost, b.events = b.asked[:0], b.lost[:0], b.events[:0]
	for _, q := range b.claims {
		b.asked = append(b.asked, q.Claim.Claim)
	}
	if cap(b.out) < len(b.asked) {
		b.out = make([]driver.Standing, len(b.asked), cap(b.asked))
	}
	b.out = b.out[:len(b.asked)]
	clear(b.out)
	return b
}

// beat makes one call of Beat and takes in what it answered.
func (s *session) beat(b *beat) {
	ctx, cancel := context.WithTimeout(s.ctx, s.ttl/6)
	err := s.d.Beat(ctx, b.asked, b.out)
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
	some, all := s.beatenLocked(b, now, err)
	s.schedule.returned(now, s.ttl, some, all)
	s.mu.Unlock()
	s.lose(b.lost...)
	for _, n := range b.events {
		n.to.post(&s.c.counters, &n.e)
	}
	clear(b.claims) // an ended claim must not be kept from the collector
	s.mu.Lock()
	s.spare = b
	s.mu.Unlock()
	s.wakeKeeper()
}

// beatenLocked takes in the answers, and reports whether there was one for some of the
// claims, and whether there was one for the session and for all of them.
func (s *session) beatenLocked(b *beat, now instant, err error) (some, all bool) {
	all = err == nil
	s.fault.note(b.sent, err)
	for i, q := range b.claims {
		cl := q.Claim.Owner.(*claim)
		outcome := s.set.Prolonged(q, b.out[i], b.sent, now)
		switch outcome {
		case claimset.Replaced:
			b.lost = append(b.lost, loss{cl: cl, why: errBroken})
		case claimset.Late:
			b.lost = append(b.lost, loss{cl: cl, why: cl.whyLocked(now)})
		case claimset.Gone, claimset.Turn: // a notice of it has not come
			cl.interruptLocked()
		case claimset.Doubted:
			b.events = cl.noticeLocked(b.events, Event{Kind: InDoubt, Err: err})
		case claimset.Renewed:
			b.events = cl.noticeLocked(b.events, Event{Kind: Renewed, Took: now.Sub(b.sent)})
		}
		unlearnt := outcome == claimset.Unlearnt || outcome == claimset.Doubted
		some, all = some || !unlearnt, all && !unlearnt
	}
	if err == nil {
		s.set.Beaten(b.sent, all)
	}
	s.set.Refresh()
	return some, all
}
