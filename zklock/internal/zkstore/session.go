package zkstore

import (
	"context"
	"time"

	"github.com/pawl-go/pawl/driverkit"
)

// A Session is one ZooKeeper session, from its first handshake until the servers or this
// process end it. A TCP connection that is made again within the timeout continues the
// same session.
type Session struct {
	ID      uint64
	Timeout time.Duration // as negotiated
	TTL     time.Duration // for how long after a write its nodes may be relied on

	conn      *Conn
	leaderLag time.Duration // after which the leader has heard of an exchange
	ctx       context.Context
	end       context.CancelFunc // called by Conn.endSessionLocked

	validUntil driverkit.Instant // guarded by conn.mu
}

// newSession returns the session of a handshake that was sent at a moment. wanted is the
// TTL that the connection was made for if the servers negotiated a longer timeout, and 0
// otherwise.
func newSession(c *Conn, id uint64, timeout, wanted time.Duration, sent driverkit.Instant) *Session {
	s := &Session{ID: id, Timeout: timeout, conn: c}
	s.ctx, s.end = context.WithCancel(context.Background())
	s.TTL, s.leaderLag = reliable(timeout, wanted)
	s.validUntil = sent.Add(timeout) // a majority has committed the session
	return s
}

// reliable says how long nodes may be relied on. Three quarters of the timeout hold with a
// write every third of the TTL. A server that raised the timeout to its minimum has ticks
// as long as half of it: its leader hears less often, and half of the timeout holds.
func reliable(timeout, wanted time.Duration) (ttl, leaderLag time.Duration) {
	ttl = timeout * 3 / 4
	leaderLag = timeout / 6
	if half := max(wanted, timeout/2); wanted > 0 && half < ttl {
		ttl, leaderLag = half, timeout/4
	}
	return ttl.Truncate(time.Millisecond), leaderLag
}

// TimeoutFor returns the session timeout to ask for to get a TTL.
func TimeoutFor(ttl time.Duration) time.Duration {
	return (ttl*4/3 + time.Millisecond).Truncate(time.Millisecond)
}

// Context ends with the session, as far as is known here: before this process sends a
// request that ends it.
func (s *Session) Context() context.Context { return s.ctx }

// Ended reports whether the session has ended, as far as is known here.
func (s *Session) Ended() bool { return s.ctx.Err() != nil }

// ValidUntil is a moment before which the servers do not expire the session.
func (s *Session) ValidUntil() driverkit.Instant {
	s.conn.mu.Lock()
	defer s.conn.mu.Unlock()
	return s.validUntil
}
