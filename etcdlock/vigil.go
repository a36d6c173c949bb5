package etcdlock

import (
	"context"
	"time"
)

// A vigil is what a claim that waits listens with. Between two calls of Await it
// is kept with the claim's spot, so that the next need not ask again for what this
// one knows; it ends when the claim is held, left or gone, and with its session.
type vigil struct {
	turn  *ear      // on who is in the way
	sure  bool      // turn is told, and since then the claim was seen to wait; nothing that was heard is still to be looked after
	self  *ear      // on the claim's own key; nil: not yet
	known bool      // self is told, and since then the key was seen to be there
	seen  time.Time // when the store was last asked about the claim
}

// close ends the vigil. A closed one may be closed again.
func (v *vigil) close() {
	v.turn.close()
	v.self.close()
	*v = vigil{}
}

// vouched reports whether all would have been told that there was to tell.
func (v *vigil) vouched(ctx context.Context, limit time.Duration) bool {
	return v.turn.vouched(ctx, limit) && (!v.known || v.self.vouched(ctx, limit))
}

// take gives p's vigil to a call of Await, of which there is one at a time.
func (s *session) take(p *spot) vigil {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := p.vigil
	p.vigil = vigil{}
	if v.self != nil && v.self.span.from != p.key { // it has another slot
		v.self.close()
		v.self, v.known = nil, false
	}
	return v
}

// park keeps v for the next Await of p, if there can be one.
func (s *session) park(p *spot, v vigil) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.spots[p.claim.ID] != p || p.left || p.held {
		v.close()
		return
	}
	p.vigil = v
}
