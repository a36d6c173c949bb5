package pawl

import (
	"context"
	"errors"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// maxBlock bounds how long Unlock and Close wait for a store.
const maxBlock = 5 * time.Second

// retire ends a session that is not in use, unless a claim has just joined.
func (s *session) retire() {
	s.mu.Lock()
	used := s.inUseLocked()
	if !used {
		s.set.Close()
	}
	s.mu.Unlock()
	if !used {
		s.forget()
		s.shut()
	}
}

// use reports whether the session is in use, and whether it ends as soon as it is not.
func (s *session) use() (inUse, ending bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.inUseLocked(), s.endingLocked()
}

func (s *session) inUseLocked() bool {
	return len(s.set.Live()) > 0 || len(s.unlocking) > 0 || len(s.departures.all) > 0 && !s.set.Retiring()
}

// finish ends the session in the store. Calls in the background are cancelled
// first and awaited, so that none of them outlives the session.
func (s *session) finish() {
	s.awaitUnlocks()
	s.cancel()
	s.calls.Wait()
	begun := s.c.now()
	ctx, cancel := context.WithTimeout(context.Background(), min(s.ttl, maxBlock))
	defer cancel()
	err := s.d.Close(ctx)
	// Claims that it could not end mostly end by themselves within a TTL, since they are
	// not beaten any more; but until then they block other processes.
	expired := !s.c.features.BySession && s.c.now().Sub(begun) >= s.ttl
	if err != nil && !errors.Is(err, driver.ErrGone) && !expired && s.mayRemain() {
		s.unended = err
	}
}

// mayRemain reports whether there may be claims of the session in the store.
func (s *session) mayRemain() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.inUseLocked() || len(s.departures.all) > 0
}

// awaitUnlocks waits for the Unlocks that are under way, so that they are not
// cancelled.
func (s *session) awaitUnlocks() {
	limit := time.NewTimer(maxBlock)
	defer limit.Stop()
	for {
		s.mu.Lock()
		n := len(s.unlocking)
		s.mu.Unlock()
		if n == 0 {
			return
		}
		select {
		case <-s.wake:
		case <-limit.C:
			return
		}
	}
}
