package redislock

import (
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driverkit"
)

// planned takes over what a look has told.
func (s *session) planned(c *driver.Claim, st driver.Standing) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.spots[c.ID]; p != nil && p.claim.Try == c.Try {
		p.plan = driverkit.RecheckAfter(st)
	}
}

// learnt takes over what a beat that was sent then has told, see lua/line.lua.
func (s *session) learnt(c *driver.Claim, sent time.Time, told []Reply) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.spots[c.ID]
	if p != nil && p.claim.Try == c.Try && p.plan.Beaten(sent, millis(told[1].Int), told[2].Text, s.ttl) {
		p.wakeLocked()
	}
}

// patience is for how long c need not look.
func (s *session) patience(c *driver.Claim) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.spots[c.ID]; p != nil && p.claim.Try == c.Try {
		return p.plan.Left()
	}
	return 0
}
