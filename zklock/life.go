package zklock

import "time"

// A life is one ZooKeeper session, from its first handshake until the servers
// ended it. A connection that is made again within the timeout goes on with the
// same life.
//
// The leader alone ends lives, and it counts from when it last heard of one. What
// a client does is seen by the server it is connected to; a follower passes that
// on twice in every tick, and with a request through the leader goes no word of
// it. So an answer to a write says that the life was there, but not that its time
// starts anew: a follower that is cut off right after it never passes the news
// on. What is certain: of any earlier exchange on the same connection, over for
// at least half a tick when the write was sent, the leader has heard by then, and
// it cannot end the life sooner than one timeout after that exchange began.
type life struct {
	id      uint64
	timeout time.Duration
	notice  time.Duration       // after which the leader has heard of an exchange
	until   instant             // not ended by the servers before this; guarded by link.mu
	lost    chan struct{}       // closed by link.endLocked
	members map[*session]func() // what to tell on loss; guarded by link.mu
	desked  bool                // a desk may be there; guarded by link.mu
	making  int                 // requests to make it that are not answered; guarded by link.mu
}

// A touch is one answered exchange: the server heard of the life between the two.
type touch struct{ sent, answered instant }

// maxTouches is how many exchanges are remembered. They are kept a 32nd of the
// timeout apart, so that they reach back far enough.
const maxTouches = 32

// touch remembers an exchange on this connection.
func (t *tap) touch(x touch, timeout time.Duration) {
	if n := len(t.touches); n > 0 && x.sent.sub(t.touches[n-1].sent) < timeout/maxTouches {
		return
	}
	if len(t.touches) == maxTouches {
		t.touches = append(t.touches[:0], t.touches[1:]...)
	}
	t.touches = append(t.touches, x)
}

// heard returns the latest moment from which the leader certainly counts, if a
// write that was sent at sent has been answered on this connection. The handshake
// itself goes to the leader.
func (t *tap) heard(sent instant, notice time.Duration) instant {
	for i := len(t.touches) - 1; i >= 0; i-- {
		if x := t.touches[i]; x.answered.add(notice) <= sent {
			return max(t.shook, x.sent)
		}
	}
	return t.shook
}

// ended reports whether the life is over, as far as is known here.
func (f *life) ended() bool {
	select {
	case <-f.lost:
		return true
	default:
		return false
	}
}

// usable says how long a life's claims may be relied on when a TTL of asked was
// wanted. Three quarters of the timeout hold with a beat every third of the TTL.
// A server that raised the timeout to its minimum has ticks as long as half of it:
// there the leader hears less often, and half of the timeout is counted on.
func usable(timeout, asked time.Duration) (ttl, notice time.Duration) {
	ttl = timeout * 3 / 4
	notice = timeout / 6
	if half := max(asked, timeout/2); asked > 0 && half < ttl {
		ttl, notice = half, timeout/4
	}
	return ttl.Truncate(time.Millisecond), notice
}

// timeoutFor is the session timeout to ask for.
func timeoutFor(ttl time.Duration) time.Duration {
	return (ttl*4/3 + time.Millisecond).Truncate(time.Millisecond)
}
