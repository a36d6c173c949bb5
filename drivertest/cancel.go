package drivertest

import (
	"context"
	"errors"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// cancelCases call the engine with a ctx that has ended or ends during the call.
var cancelCases = []lawCase{
	{name: "a call with an ended ctx comes back with its error", law: 10, run: endedCtx,
		why: "The core tells its caller that the ctx ended; an engine that answers something else makes it report a fault of the store."},
	{name: "Await ends with its ctx", law: 10, needs: needs{queue: true}, run: awaitEnds,
		why: "ctx is cancelled in the middle of Await: it comes back at once with ctx's error."},
	{name: "a cancelled Await does not cost the turn", law: 6, needs: needs{queue: true}, run: cancelKeepsTurn,
		why: "B's Await is cancelled just as A leaves: the notice may be lost, but the next Await must see the turn at once."},
	{name: "a wait that was given up can be left", law: 10, needs: needs{queue: true}, run: cancelThenLeave,
		why: "B's wait is cancelled and B leaves: C, behind it, must not wait for B."},
}

func endedCtx(f *fixture) {
	a, b := f.open(), f.open()
	ca, cb := f.claim(), f.claim()
	a.mustHold(ca)
	cause := errors.New("the caller went away")
	ctx, cancel := context.WithCancelCause(f.ctx)
	cancel(cause)
	calls := map[string]func() error{
		"Open": func() error {
			o, err := f.engine.Open(ctx, driver.SessionOptions{ID: newID(), TTL: f.ttl})
			if err == nil { // a call that does not need the store may succeed
				_ = o.Close(f.ctx)
				return ctx.Err()
			}
			return err
		},
		"Enter": func() error { _, err := b.Enter(ctx, cb); return err },
		"Leave": func() error { return a.Leave(ctx, ca) },
		"Beat":  func() error { return a.Beat(ctx, []driver.Claim{ca}, make([]driver.Standing, 1)) },
		"List":  func() error { _, err := entries(ctx, f.engine, f.name); return err },
		"Evict": func() error { return f.engine.Evict(ctx, driver.Entry{Claim: ca}) },
	}
	for name, call := range calls {
		f.promptly(name+" with an ended ctx", func() {
			if err := call(); !errors.Is(err, context.Canceled) && !errors.Is(err, cause) {
				f.Errorf("%s with an ended ctx: %v, not ctx's error", name, err)
			}
		})
	}
	// The store may or may not have carried the cancelled calls out; the next call
	// settles it.
	if st := a.mustEnter(ca); !st.Held {
		f.Logf("Leave was carried out under an ended ctx")
	}
	_ = b.tryLeave(f.ctx, cb) // the claim may not have been entered
	_ = a.tryLeave(f.ctx, ca) // held, unless cb was held at that moment
	f.expectLine("both have left")
}

func awaitEnds(f *fixture) {
	a, b := f.open(), f.open()
	ca, cb := f.claim(), f.claim()
	a.mustHold(ca)
	last := b.mustWait(cb)
	for _, after := range []time.Duration{0, time.Microsecond, 30 * time.Millisecond} {
		ctx, cancel := context.WithTimeout(f.ctx, after)
		err := awaitUntilError(ctx, b, cb, last)
		if !errors.Is(err, context.DeadlineExceeded) {
			f.Errorf("Await whose ctx ended after %v: %v, not ctx's error", after, err)
		}
		cancel()
	}
	f.expectLine("B's waits were cancelled", ca, cb)
}

// awaitUntilError calls Await until it returns an error, and fails the case if that
// happens much later than the end of ctx.
func awaitUntilError(ctx context.Context, s *session, c driver.Claim, last driver.Standing) (err error) {
	s.f.Helper()
	s.f.promptly("Await whose ctx ends", func() {
		for err == nil && s.f.ctx.Err() == nil {
			_, err = s.Await(ctx, c, last)
		}
	})
	return err
}

func cancelKeepsTurn(f *fixture) {
	a, b := f.open(), f.open()
	for i := range 10 {
		ca, cb := f.claim(), f.claim()
		a.mustHold(ca)
		last := b.mustWait(cb)
		ctx, cancel := context.WithCancel(f.ctx)
		call := f.inBackground(func() error {
			for {
				if st, err := b.Await(ctx, cb, last); err != nil || st.Held {
					return nil // the call and the cancellation race
				}
			}
		})
		if i%2 == 0 {
			time.Sleep(time.Millisecond) // so that Await is probably blocked by now
		}
		left := f.inBackground(func() error { return a.tryLeave(f.ctx, ca) })
		cancel()
		call.wait("a cancelled Await")
		left.wait("Leave")
		b.mustGetTurn(cb, last)
		b.mustLeave(cb)
	}
}

func cancelThenLeave(f *fixture) {
	a, b, c := f.open(), f.open(), f.open()
	ca, cb, cc := f.claim(), f.claim(), f.claim()
	a.mustHold(ca)
	last := b.mustWait(cb)
	st := c.mustWait(cc)
	ctx, cancel := context.WithTimeout(f.ctx, 10*time.Millisecond)
	defer cancel()
	if err := awaitUntilError(ctx, b, cb, last); !errors.Is(err, context.DeadlineExceeded) {
		f.Errorf("Await whose ctx ended: %v, not ctx's error", err)
	}
	b.mustLeave(cb)
	a.mustLeave(ca)
	c.mustGetTurn(cc, st)
}
