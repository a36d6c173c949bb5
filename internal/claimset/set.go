package claimset

import (
	"time"

	"github.com/pawl-go/pawl/driver"
)

// A Set is the claims of one session. The caller's mutex guards all of it.
type Set struct {
	ttl    time.Duration
	margin time.Duration // a hold ends here so much before the store may give it to another
	fixed  bool          // holds are never prolonged

	live     []*Claim // claims that joined and have not ended
	held     int      // how many of live are held
	next     Instant  // no held claim's deadline is before this
	promised Instant  // until when the store promised the session itself
	answered Instant  // when the last call that was answered had been sent
	closed   bool     // the session has ended
	retiring bool     // no claim may join; those that did stay until they end
	round    uint32   // of beats: in each, every claim is prolonged once
}

// New returns the set of a session that was opened by a call sent at the given time.
// With fixed a hold lasts as long as was promised before it was granted.
func New(ttl, margin time.Duration, fixed bool, sent Instant) Set {
	return Set{ttl: ttl, margin: margin, fixed: fixed, next: Never, promised: sent.Add(ttl), answered: sent, round: 1}
}

// Open reports whether claims may still join.
func (s *Set) Open() bool { return !s.closed && !s.retiring }

// Closed reports whether the session has ended.
func (s *Set) Closed() bool { return s.closed }

// Close says that the session has ended: no claim joins, is granted or passed on.
func (s *Set) Close() { s.closed = true }

// Retiring reports whether the session ends with its last claim.
func (s *Set) Retiring() bool { return s.retiring }

// Retire says that the session ends with its last claim.
func (s *Set) Retire() { s.retiring = true }

// Live returns the claims that joined and have not ended. The slice is the set's own.
func (s *Set) Live() []*Claim { return s.live }

// Held returns how many claims are held.
func (s *Set) Held() int { return s.held }

// Next returns an instant that no held claim's deadline is before.
func (s *Set) Next() Instant { return s.next }

// LastAnswer returns when the last call that was answered had been sent.
func (s *Set) LastAnswer() Instant { return s.answered }

// Promised returns until when the store promised the session itself.
func (s *Set) Promised() Instant { return s.promised }

// Join makes c a claim of the set, unless the session has ended or is about to.
func (s *Set) Join(c *Claim) bool {
	if !s.Open() {
		return false
	}
	c.state, c.promise, c.limit, c.index, c.round, c.asked = Entering, 0, 0, len(s.live), 0, 0
	s.live = append(s.live, c)
	return true
}

// Rename gives c an ID that the store has never seen.
func (s *Set) Rename(c *Claim, id string) {
	c.ID, c.Try = id, 1
	s.reenter(c)
}

// Retry prepares c for an Enter that follows one the store no longer knows.
func (s *Set) Retry(c *Claim) {
	c.Try++
	s.reenter(c)
}

// reenter forgets the place in line: its promise was for that place, and a beat for
// it would report a false loss.
func (s *Set) reenter(c *Claim) {
	c.promise, c.round, c.asked = 0, 0, 0
	if c.state == Waiting {
		c.state = Entering
	}
}

// Answered takes in the answer to an Enter that was sent at the given time, when the
// session was promised until promised. With Valid 0 the claim lives by that: a beat that
// was answered since may have promised its own claims less than a TTL.
// It reports false if the session has ended meanwhile.
func (s *Set) Answered(c *Claim, sent, promised Instant, st driver.Standing) bool {
	if s.closed {
		return false
	}
	s.answered = max(s.answered, sent)
	if st.Valid > 0 {
		promised = sent.Add(st.Valid)
	}
	s.prolong(c, promised)
	if !st.Held && c.state == Entering {
		c.state = Waiting
	}
	return true
}

// Confirmed takes in the answer to a call that asked whether c still is what the
// engine granted, and prolonged it. It reports false if the store has another claim
// under c's ID, or none.
func (s *Set) Confirmed(c *Claim, fence uint64, sent Instant, st driver.Standing) bool {
	switch {
	case st.Gone, st.Valid > 0 && (!st.Held || st.Token != fence):
		return false
	case st.Valid > 0 && c.state != Ended:
		s.answered = max(s.answered, sent)
		c.doubt = false
		if c.state != Held || !s.fixed {
			s.prolong(c, sent.Add(st.Valid))
		}
	}
	return true
}

// prolong takes in that the store promised c until then.
func (s *Set) prolong(c *Claim, until Instant) {
	c.promise = max(c.promise, until.Add(-s.margin))
	c.setDeadline()
}

// Grant makes c a hold. It refuses a grant whose answer came after the deadline.
func (s *Set) Grant(c *Claim, fence uint64, now Instant) bool {
	if s.closed || c.state == Ended || now >= c.promise {
		return false
	}
	if c.state != Held {
		s.held++
	}
	c.state, c.granted, c.fence, c.pass, c.doubt = Held, now, fence, 0, false
	s.startHold(c, now)
	return true
}

// Pass counts one more holder of the same grant, and reports false if the hold must
// go back to the store instead: it has lasted longer than the turn, is in doubt or
// pinned, or is promised for less than a third of its TTL.
func (s *Set) Pass(c *Claim, now Instant, turn time.Duration) bool {
	if s.closed || c.state != Held || c.doubt || c.pinned || c.pass == MaxPass ||
		now.Sub(c.granted) >= turn || c.promise.Sub(now) <= s.ttl/3 {
		return false
	}
	c.pass++
	s.startHold(c, now)
	return true
}

// startHold starts the maximum hold of whoever holds c from now on.
func (s *Set) startHold(c *Claim, now Instant) {
	if c.MaxHold != 0 {
		c.limit = now.Add(c.MaxHold)
		c.setDeadline()
	}
	s.next = min(s.next, c.Deadline())
}

// End ends c, and reports whether it was held.
func (s *Set) End(c *Claim) (held bool) {
	if c.state == Ended {
		return false
	}
	if held = c.state == Held; held {
		if s.held--; s.held == 0 {
			s.next = Never
		}
	}
	c.state = Ended
	last := len(s.live) - 1
	s.live[c.index] = s.live[last]
	s.live[c.index].index = c.index
	s.live[last] = nil
	s.live = s.live[:last]
	return held
}

// Expired returns the holds whose deadline has passed. They stay held until End:
// the caller must first end what its user sees.
func (s *Set) Expired(now Instant) (over []*Claim) {
	for _, c := range s.live {
		if c.state == Held && now >= c.Deadline() {
			over = append(over, c)
		}
	}
	return over
}

// Refresh computes Next anew, from all holds that have not ended, also those whose
// deadline has passed.
func (s *Set) Refresh() {
	s.next = Never
	for _, c := range s.live {
		if c.state == Held {
			s.next = min(s.next, c.Deadline())
		}
	}
}
