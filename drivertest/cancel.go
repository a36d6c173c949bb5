package drivertest

import (
	"context"
	"errors"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// cancelCases are about a ctx that has ended.
var cancelCases = []lawCase{
	{name: "a call with an ended ctx comes back with its error", law: 10, run: endedCtx,
		why: "The core tells its caller that the ctx ended; an engine that answers something else makes it report a fault of the store."},
	{name: "Await ends with its ctx", law: 10, needs: needs{queue: true}, run: awaitEnds,
		why: "ctx is cancelled in the middle of Await: it comes back at once with ctx's error."},
	{name: "a cancelled Await does not cost the turn", law: 6, needs: needs{queue: true}, run: cancelKeepsTurn,
		why: "B's Await is cancelled just as A leaves: the notice may be swallowed, the turn must be seen by the next Await at once."},
	{name: "a wait that was given up can be left", law: 10, needs: needs{queue: true}, run: cancelThenLeave,
		why: "B's wait is cancelled and B leaves: C, behind it, must not wait for B."},
}

func endedCtx(s *stage) {
	a, b := s.join(), s.join()
	ca, cb := s.claim(), s.claim()
	a.hold(ca)
	cause := errors.New("the caller went away")
	ctx, cancel := context.WithCancelCause(s.ctx)
	cancel(cause)
	calls := map[string]func() error{
		"Open": func() error {
			o, err := s.engine.Open(ctx, driver.SessionOptions{ID: newID(), TTL: s.ttl})
			if err == nil { // there may be nothing to ask a store for
				_ = o.Close(s.ctx)
				return ctx.Err()
			}
			return err
		},
		"Enter": func() error { _, err := b.Enter(ctx, cb); return err },
		"Leave": func() error { return a.Leave(ctx, ca) },
		"Beat":  func() error { return a.Beat(ctx, []driver.Claim{ca}, make([]driver.Standing, 1)) },
		"List":  func() error { _, err := entries(ctx, s.engine, s.name); return err },
		"Evict": func() error { return s.engine.Evict(ctx, driver.Entry{Claim: ca}) },
	}
	for name, call := range calls {
		s.promptly(name+" with an ended ctx", func() {
			if err := call(); !errors.Is(err, context.Canceled) && !errors.Is(err, cause) {
				s.Errorf("%s with an ended ctx: %v, not ctx's error", name, err)
			}
		})
	}
	// What was asked may or may not have been carried out; the next call tells.
	if st := a.enter(ca); !st.Held {
		s.Logf("Leave was carried out under an ended ctx")
	}
	_ = b.quit(s.ctx, cb) // it may not have been entered
	_ = a.quit(s.ctx, ca) // held, unless another stood in its way just now
	s.expectLine("both have left")
}

func awaitEnds(s *stage) {
	a, b := s.join(), s.join()
	ca, cb := s.claim(), s.claim()
	a.hold(ca)
	last := b.stand(cb)
	for _, after := range []time.Duration{0, time.Microsecond, 30 * time.Millisecond} {
		ctx, cancel := context.WithTimeout(s.ctx, after)
		err := stubborn(ctx, b, cb, last)
		if !errors.Is(err, context.DeadlineExceeded) {
			s.Errorf("Await whose ctx ended after %v: %v, not ctx's error", after, err)
		}
		cancel()
	}
	s.expectLine("B's waits were cancelled", ca, cb)
}

// stubborn awaits until there is an error, and fails the case if that comes much
// later than the end of ctx.
func stubborn(ctx context.Context, p *player, c driver.Claim, last driver.Standing) (err error) {
	p.s.Helper()
	p.s.promptly("Await whose ctx ends", func() {
		for err == nil && p.s.ctx.Err() == nil {
			_, err = p.Await(ctx, c, last)
		}
	})
	return err
}

func cancelKeepsTurn(s *stage) {
	a, b := s.join(), s.join()
	for i := range 10 {
		ca, cb := s.claim(), s.claim()
		a.hold(ca)
		last := b.stand(cb)
		ctx, cancel := context.WithCancel(s.ctx)
		k := s.start(func() error {
			for {
				if st, err := b.Await(ctx, cb, last); err != nil || st.Held {
					return nil // which of the two came first is chance
				}
			}
		})
		if i%2 == 0 {
			time.Sleep(time.Millisecond) // so that Await most likely waits
		}
		left := s.start(func() error { return a.quit(s.ctx, ca) })
		cancel()
		k.wait("a cancelled Await")
		left.wait("Leave")
		b.turn(cb, last)
		b.leave(cb)
	}
}

func cancelThenLeave(s *stage) {
	a, b, c := s.join(), s.join(), s.join()
	ca, cb, cc := s.claim(), s.claim(), s.claim()
	a.hold(ca)
	last := b.stand(cb)
	st := c.stand(cc)
	ctx, cancel := context.WithTimeout(s.ctx, 10*time.Millisecond)
	defer cancel()
	if err := stubborn(ctx, b, cb, last); !errors.Is(err, context.DeadlineExceeded) {
		s.Errorf("Await whose ctx ended: %v, not ctx's error", err)
	}
	b.leave(cb)
	a.leave(ca)
	c.turn(cc, st)
}
