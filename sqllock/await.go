package sqllock

import (
	"context"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driverkit"
)

// A waiter is one Await under way.
type waiter struct {
	name   string
	turn   chan struct{}     // look; buffered by one, never closed
	sooner chan struct{}     // the plan has changed; as turn
	plan   driverkit.Recheck // guarded by the engine's mu
	told   bool              // likewise: it was woken
}

func (w *waiter) wake()   { signal(w.turn) }
func (w *waiter) hasten() { signal(w.sooner) }

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default: // already told
	}
}

// Await looks, waits for word of the claim or for its time, and looks again. The
// waiter is known before the first look, so no turn falls between. Its time is what
// the look says, or the latest beat; it comes back where something has changed.
func (s *session) Await(ctx context.Context, c driver.Claim, _ driver.Standing) (driver.Standing, error) {
	if err := s.begin(ctx); err != nil {
		return driver.Standing{}, err
	}
	w, err := s.e.await(c)
	if err != nil {
		return driver.Standing{}, err
	}
	defer s.e.leaveAwait(c.ID, w)
	st, err := s.look(ctx, c)
	for err == nil && !st.Held && !st.Gone {
		last := st
		told, werr := s.linger(ctx, w, driverkit.RecheckAfter(last))
		if werr != nil {
			return driver.Standing{}, werr
		}
		st, err = s.look(ctx, c)
		if told || !s.e.d.Push || driverkit.Blocker(st) != driverkit.Blocker(last) {
			break
		}
	}
	return st, err
}

// linger waits until it is time to look, and reports whether it was told to.
func (s *session) linger(ctx context.Context, w *waiter, p driverkit.Recheck) (told bool, err error) {
	timer := time.NewTimer(max(s.e.plans(w, p), time.Millisecond))
	defer timer.Stop()
	for {
		select {
		case <-w.turn:
			return true, s.begin(ctx) // the session may have ended meanwhile
		case <-w.sooner:
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

// look reads how c stands, and settles the line first where something ahead has
// expired: nobody else may be awake to do it.
func (s *session) look(ctx context.Context, c driver.Claim) (driver.Standing, error) {
	a := s.args(c)
	for again := false; ; again = true {
		l := look{name: c.Name}
		if err := s.e.d.Store.Read(ctx, &Step{Query: s.e.q.standing, Args: a, Row: l.scan}); err != nil {
			return driver.Standing{}, err
		}
		if !l.known || l.try != c.Try || l.until <= l.now {
			s.ended(c)
			return driver.Standing{Gone: true}, nil
		}
		if again || !l.unsettled() {
			s.saw(c, spotHint{token: l.token, head: l.held && c.Exclusive(), waits: !l.held})
			return l.standing(), nil
		}
		if err := s.e.settle(ctx, a.text[Name]); err != nil {
			return driver.Standing{}, err
		}
	}
}

func (e *Engine) await(c driver.Claim) (*waiter, error) {
	w := &waiter{name: c.Name, turn: make(chan struct{}, 1), sooner: make(chan struct{}, 1)}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil, driver.ErrGone
	}
	e.waiters[c.ID] = w
	e.pollsLocked(c.Name).waiters++
	e.stirLocked()
	return w, nil
}

func (e *Engine) leaveAwait(id string, w *waiter) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.waiters[id] == w {
		delete(e.waiters, id)
	}
	p := e.polls[w.name]
	p.waiters--
	e.unpollLocked(w.name, p)
}

// stirLocked sees to it that Attend runs and knows that somebody waits.
func (e *Engine) stirLocked() {
	if e.stirred != nil {
		close(e.stirred)
		e.stirred = nil
	}
	if e.attended || e.d.Attend == nil || e.closed {
		return
	}
	e.attended = true
	e.tasks.Go(func() { e.d.Attend(e.begun, Waiters{e}) }) // Close ends it and waits for it
}

// wake tells those of this process who wait for one of the claims to look, and
// returns the claims for which nobody waits here.
func (e *Engine) wake(ids ...string) (elsewhere []string) {
	if len(ids) == 0 {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, id := range ids {
		if w := e.waiters[id]; w != nil {
			w.told = true
			w.wake()
		} else {
			elsewhere = append(elsewhere, id)
		}
	}
	return elsewhere
}
