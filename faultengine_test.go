package pawl

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/memlock"
)

// A faultEngine is an engine whose calls a test can delay, fail, or watch. Each hook gets
// the real call to make, or not.
type faultEngine struct {
	driver.Engine
	features *driver.Features // nil: the engine's own

	mu       sync.Mutex // guards the hooks
	open     func(ctx context.Context, next func() (driver.Session, error)) (driver.Session, error)
	enter    func(ctx context.Context, c driver.Claim, next func(context.Context) (driver.Standing, error)) (driver.Standing, error)
	leave    func(ctx context.Context, c driver.Claim, next func(context.Context) error) error
	leaveAll func(ctx context.Context, cs []driver.Claim, next func()) // nil: the sessions are no driver.Leaver
	beat     func(ctx context.Context, live []driver.Claim, out []driver.Standing, next func(context.Context) error) error
	await    func(ctx context.Context) // in place of the engine's own waiting
	close    error                     // of a session
	lost     chan struct{}
}

// withFaults runs fn in a bubble with a client on a withFaults memory engine.
func withFaults(t *testing.T, fn func(t *testing.T, c *Client, r *faultEngine), opts ...Option) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &faultEngine{Engine: memlock.New()}
		c := New(r, opts...)
		defer c.Close()
		fn(t, c, r)
	})
}

// set changes hooks.
func (r *faultEngine) set(change func(r *faultEngine)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(r)
}

func (r *faultEngine) Features() driver.Features {
	if r.features != nil {
		return *r.features
	}
	return r.Engine.Features()
}

func (r *faultEngine) Open(ctx context.Context, o driver.SessionOptions) (driver.Session, error) {
	next := func() (driver.Session, error) {
		s, err := r.Engine.Open(ctx, o)
		if err != nil {
			return nil, err
		}
		fs := &faultSession{Session: s, r: r, lost: r.lost}
		if r.leaveAll != nil {
			return &leavingSession{fs}, nil
		}
		return fs, nil
	}
	r.mu.Lock()
	hook := r.open
	r.mu.Unlock()
	if hook == nil {
		return next()
	}
	return hook(ctx, next)
}

type faultSession struct {
	driver.Session
	r    *faultEngine
	lost chan struct{}
}

// A leavingSession is a driver.Leaver.
type leavingSession struct{ *faultSession }

func (s *leavingSession) LeaveAll(ctx context.Context, cs []driver.Claim, out []error) {
	s.r.leaveAll(ctx, cs, func() { s.Session.(driver.Leaver).LeaveAll(ctx, cs, out) })
}

func (s *faultSession) Lost() <-chan struct{} { return s.lost }

func (s *faultSession) Enter(ctx context.Context, c driver.Claim) (driver.Standing, error) {
	s.r.mu.Lock()
	hook := s.r.enter
	s.r.mu.Unlock()
	next := func(ctx context.Context) (driver.Standing, error) { return s.Session.Enter(ctx, c) }
	if hook == nil {
		return next(ctx)
	}
	return hook(ctx, c, next)
}

func (s *faultSession) Await(ctx context.Context, c driver.Claim, last driver.Standing) (driver.Standing, error) {
	s.r.mu.Lock()
	hook := s.r.await
	s.r.mu.Unlock()
	if hook == nil {
		return s.Session.Await(ctx, c, last)
	}
	hook(ctx)
	return driver.Standing{}, ctx.Err()
}

func (s *faultSession) Leave(ctx context.Context, c driver.Claim) error {
	s.r.mu.Lock()
	hook := s.r.leave
	s.r.mu.Unlock()
	next := func(ctx context.Context) error { return s.Session.Leave(ctx, c) }
	if hook == nil {
		return next(ctx)
	}
	return hook(ctx, c, next)
}

func (s *faultSession) Beat(ctx context.Context, live []driver.Claim, out []driver.Standing) error {
	s.r.mu.Lock()
	hook := s.r.beat
	s.r.mu.Unlock()
	next := func(ctx context.Context) error { return s.Session.Beat(ctx, live, out) }
	if hook == nil {
		return next(ctx)
	}
	return hook(ctx, live, out, next)
}

func (s *faultSession) Close(ctx context.Context) error {
	s.r.mu.Lock()
	failed := s.r.close
	s.r.mu.Unlock()
	if failed == nil {
		return s.Session.Close(ctx)
	}
	if errors.Is(failed, context.DeadlineExceeded) {
		<-ctx.Done()
	}
	return failed
}

// blackHole makes every call wait for its ctx, as a cut cable does.
func (r *faultEngine) blackHole() {
	r.set(func(r *faultEngine) {
		r.enter = func(ctx context.Context, _ driver.Claim, _ func(context.Context) (driver.Standing, error)) (driver.Standing, error) {
			<-ctx.Done()
			return driver.Standing{}, ctx.Err()
		}
		r.leave = func(ctx context.Context, _ driver.Claim, _ func(context.Context) error) error {
			<-ctx.Done()
			return ctx.Err()
		}
		r.beat = func(ctx context.Context, _ []driver.Claim, _ []driver.Standing, _ func(context.Context) error) error {
			<-ctx.Done()
			return ctx.Err()
		}
	})
}

// heal takes every hook away.
func (r *faultEngine) heal() {
	r.set(func(r *faultEngine) { r.open, r.enter, r.await, r.leave, r.beat = nil, nil, nil, nil, nil })
}

// gatesInUse returns the gates that somebody has not given back.
func (c *Client) gatesInUse() []*gate {
	c.gates.mu.Lock()
	defer c.gates.mu.Unlock()
	all := slices.Collect(maps.Values(c.gates.byKey))
	if last := c.gates.last; last != nil && last.refs > 0 {
		all = append(all, last)
	}
	return all
}
