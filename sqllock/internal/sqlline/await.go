package sqlline

import (
	"context"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driverkit"
	"github.com/pawl-go/pawl/sqllock/internal/sqlstore"
)

// A waiter is one Await under way.
type waiter struct {
	name     string
	turn     chan struct{}     // look; buffered by one, never closed
	changed  chan struct{}     // recheck has changed; as turn
	recheck  driverkit.Recheck // guarded by the engine's mu
	notified bool              // likewise
}

func (w *waiter) wake()   { signal(w.turn) }
func (w *waiter) sooner() { signal(w.changed) }

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default: // a signal is pending
	}
}

// Await looks, waits for a notice or for the time to recheck, and looks again. The
// waiter is registered before the first look, so no turn is missed in between.
func (s *session) Await(ctx context.Context, c driver.Claim, _ driver.Standing) (driver.Standing, error) {
	if err := s.begin(ctx); err != nil {
		return driver.Standing{}, err
	}
	w, err := s.e.addWaiter(c)
	if err != nil {
		return driver.Standing{}, err
	}
	defer s.e.removeWaiter(c.ID, w)
	st, err := s.look(ctx, c)
	for err == nil && !st.Held && !st.Gone {
		last := st
		notified, werr := s.wait(ctx, w, driverkit.RecheckAfter(last))
		if werr != nil {
			return driver.Standing{}, werr
		}
		st, err = s.look(ctx, c)
		if notified || !s.e.d.Push || driverkit.Blocker(st) != driverkit.Blocker(last) {
			break
		}
	}
	return st, err
}

// wait waits until it is time to look, and reports whether that is because of a notice.
func (s *session) wait(ctx context.Context, w *waiter, r driverkit.Recheck) (notified bool, err error) {
	timer := time.NewTimer(max(s.e.setRecheck(w, r), time.Millisecond))
	defer timer.Stop()
	for {
		select {
		case <-w.turn:
			return true, s.begin(ctx) // the session may have ended meanwhile
		case <-w.changed:
		case <-timer.C:
			if s.e.left(w) <= 0 {
				return false, s.begin(ctx)
			}
		case <-ctx.Done():
			return false, ctx.Err()
		}
		timer.Reset(max(s.e.left(w), time.Millisecond))
	}
}

// look reads the standing of c, after advancing the line if a claim ahead has expired:
// no other process may be there to do it.
func (s *session) look(ctx context.Context, c driver.Claim) (driver.Standing, error) {
	a := s.args(c)
	for again := false; ; again = true {
		r := claimReading{name: c.Name}
		if err := s.e.d.Store.Read(ctx, &sqlstore.Step{Statement: s.e.q.Standing, Args: a, Row: r.scan}); err != nil {
			return driver.Standing{}, err
		}
		if !r.known || r.try != c.Try || r.until <= r.now {
			s.ended(c)
			return driver.Standing{Gone: true}, nil
		}
		if again || !r.stalled() {
			s.saw(c, r.location(c))
			return r.standing(), nil
		}
		if err := s.e.advance(ctx, a.Key()); err != nil {
			return driver.Standing{}, err
		}
	}
}

func (e *Engine) addWaiter(c driver.Claim) (*waiter, error) {
	w := &waiter{name: c.Name, turn: make(chan struct{}, 1), changed: make(chan struct{}, 1)}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil, driver.ErrGone
	}
	e.waiters[c.ID] = w
	e.pollLocked(c.Name).waiters++
	e.activeLocked()
	return w, nil
}

func (e *Engine) removeWaiter(id string, w *waiter) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.waiters[id] == w {
		delete(e.waiters, id)
	}
	p := e.polls[w.name]
	p.waiters--
	e.endPollLocked(w.name, p)
}

// setRecheck sets when a waiter looks again, and returns how long that is.
func (e *Engine) setRecheck(w *waiter, r driverkit.Recheck) time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	w.recheck = r
	return r.Left()
}

// left returns how long a waiter need not look.
func (e *Engine) left(w *waiter) time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	return w.recheck.Left()
}
