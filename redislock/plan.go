package redislock

import (
	"time"

	"github.com/pawl-go/pawl/driver"
)

// A plan is when a claim that waits looks for itself. Each beat learns anew when that
// is; so as long as it is beaten, and all is well, it need not look at all.
type plan struct {
	next    time.Time // when to look
	looked  time.Time // when it was last known who is in the way
	blocker string    // who that was, as a beat knows them
}

// planned takes over what a look has told.
func (s *session) planned(c *driver.Claim, st driver.Standing) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.spots[c.ID]
	if p == nil || p.claim.Try != c.Try {
		return
	}
	now := time.Now()
	p.plan = plan{next: now.Add(st.Pause), looked: now, blocker: blocker(st)}
}

// learnt takes over what a beat that was sent then has told, see lua/line.lua. Where
// another claim is in the way now, a look is due: at most one in the life of a claim.
func (s *session) learnt(c *driver.Claim, sent time.Time, told []Reply) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.spots[c.ID]
	if p == nil || p.claim.Try != c.Try || p.turn == nil {
		return
	}
	before := p.next
	p.next = sent.Add(max(millis(told[1].Int), time.Millisecond))
	if due := p.looked.Add(s.ttl); told[2].Text != p.blocker && due.Before(p.next) {
		p.next = due
	}
	if p.next.Before(before) {
		p.wakeLocked()
	}
}

// patience is for how long c need not look.
func (s *session) patience(c *driver.Claim) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.spots[c.ID]; p != nil && p.claim.Try == c.Try {
		return time.Until(p.next)
	}
	return 0
}

// blocker is who is in the way, as a beat knows them: one exclusive claim.
func blocker(st driver.Standing) string {
	h := st.Holder
	if h == nil || h.Foreign || !h.Exclusive() {
		return ""
	}
	return h.ID[:min(len(h.ID), 8)]
}
