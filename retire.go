package pawl

import (
	"context"
	"errors"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// How a session ends: when nobody uses it any more, or with its client.

// finish ends the session in the store. Calls in the background are called off
// first and awaited, so that none of them outlives the session.
func (s *session) finish() {
	s.awaitLeft()
	s.cancel()
	s.calls.Wait()
	begun := s.c.now()
	ctx, cancel := context.WithTimeout(context.Background(), min(s.ttl, maxBlock))
	defer cancel()
	err := s.d.Close(ctx)
	// What it could not end mostly ends by itself within a TTL, since nobody beats for
	// it any more; but until then it is in the way of others.
	expired := !s.c.features.BySession && s.c.now().sub(begun) >= s.ttl
	if err != nil && !errors.Is(err, driver.ErrGone) && !expired && s.owes() {
		s.unended = err
	}
}

// owes reports whether there may be claims of the session in the store.
func (s *session) owes() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.gaveUp || s.inUseLocked() || len(s.leaving) > 0
}

// awaitLeft waits for Unlocks that are under way, so that they are not called off.
func (s *session) awaitLeft() {
	limit := time.NewTimer(maxBlock)
	defer limit.Stop()
	for {
		s.mu.Lock()
		left := len(s.left)
		s.mu.Unlock()
		if left == 0 {
			return
		}
		select {
		case <-s.wake:
		case <-limit.C:
			return
		}
	}
}

func (s *session) inUseLocked() bool {
	return len(s.live) > 0 || len(s.left) > 0 || len(s.leaving) > 0 && !s.spent
}

func (s *session) inUse() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.inUseLocked()
}

// ending reports whether the session ends as soon as nobody uses it.
func (s *session) ending() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fixed || s.spent
}

// retire ends a session that nobody uses, unless somebody just came.
func (s *session) retire() {
	s.mu.Lock()
	if s.inUseLocked() {
		s.mu.Unlock()
		return
	}
	s.dead = true
	s.mu.Unlock()
	s.c.forget(s)
	s.shut()
}
