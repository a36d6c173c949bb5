package sqllock

import (
	"context"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// A waiter is one Await under way.
type waiter struct {
	name string
	turn chan struct{} // buffered by one; never closed
}

func (w *waiter) wake() {
	select {
	case w.turn <- struct{}{}:
	default: // already told
	}
}

// Await looks, waits for word of the claim or for its pause, and looks again.
// The waiter is known before the first look, so no turn falls between.
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
	if err != nil || st.Held || st.Gone {
		return st, err
	}
	timer := time.NewTimer(max(st.Pause, time.Millisecond))
	defer timer.Stop()
	select {
	case <-w.turn:
	case <-timer.C:
	case <-ctx.Done():
		return driver.Standing{}, ctx.Err()
	}
	if err := s.begin(ctx); err != nil { // the session may have ended meanwhile
		return driver.Standing{}, err
	}
	return s.look(ctx, c)
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
	w := &waiter{name: c.Name, turn: make(chan struct{}, 1)}
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
			w.wake()
		} else {
			elsewhere = append(elsewhere, id)
		}
	}
	return elsewhere
}
