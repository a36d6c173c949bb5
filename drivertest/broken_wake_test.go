package drivertest_test

import (
	"context"
	"errors"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// brokenWakes break the laws on waiting.
var brokenWakes = []testEngine{
	{"a push engine polls", 6, func(engine *overridden) {
		engine.await = pollAwait
	}},
	{"a cancelled wait swallows its turn", 6, func(engine *overridden) {
		swallowed := map[string]bool{}
		engine.await = func(ctx context.Context, s *overriddenSession, c driver.Claim, last driver.Standing) (driver.Standing, error) {
			engine.mu.Lock()
			deaf := swallowed[c.ID]
			engine.mu.Unlock()
			if deaf {
				return pollAwait(ctx, s, c, last)
			}
			st, err := s.Session.Await(ctx, c, last)
			engine.mu.Lock()
			swallowed[c.ID] = err != nil
			engine.mu.Unlock()
			return st, err
		}
	}},
	{"leave wakes everybody", 7, func(engine *overridden) {
		bell := make(chan struct{})
		engine.leave = func(ctx context.Context, s *overriddenSession, c driver.Claim) error {
			err := s.Session.Leave(ctx, c)
			engine.mu.Lock()
			defer engine.mu.Unlock()
			close(bell)
			bell = make(chan struct{})
			return err
		}
		engine.await = func(ctx context.Context, s *overriddenSession, c driver.Claim, last driver.Standing) (driver.Standing, error) {
			engine.mu.Lock()
			rung := bell
			engine.mu.Unlock()
			woken, cancel := context.WithCancel(ctx)
			defer cancel()
			done := make(chan struct{})
			go func() {
				defer close(done)
				select {
				case <-rung:
					cancel()
				case <-woken.Done():
				}
			}()
			st, err := s.Session.Await(woken, c, last)
			cancel()
			<-done
			if err != nil && ctx.Err() == nil {
				return s.Session.Enter(ctx, c)
			}
			return st, err
		}
	}},
	{"await ignores its ctx", 10, func(engine *overridden) {
		engine.await = func(ctx context.Context, s *overriddenSession, c driver.Claim, last driver.Standing) (driver.Standing, error) {
			return s.Session.Await(context.WithoutCancel(ctx), c, last)
		}
	}},
	{"await hides its ctx's error", 10, func(engine *overridden) {
		engine.await = func(ctx context.Context, s *overriddenSession, c driver.Claim, last driver.Standing) (driver.Standing, error) {
			st, err := s.Session.Await(ctx, c, last)
			if err != nil && ctx.Err() != nil {
				err = errors.New("timed out")
			}
			return st, err
		}
	}},
	{"an unknown claim waits on", 10, func(engine *overridden) {
		engine.await = func(ctx context.Context, s *overriddenSession, c driver.Claim, last driver.Standing) (driver.Standing, error) {
			st, err := s.Session.Await(ctx, c, last)
			if st.Gone {
				return pollAwait(ctx, s, c, driver.Standing{Pause: time.Minute})
			}
			return st, err
		}
	}},
	{"a goroutine per held claim", 9, func(engine *overridden) {
		engine.stop = make(chan struct{})
		engine.enter = func(ctx context.Context, s *overriddenSession, c driver.Claim) (driver.Standing, error) {
			st, err := s.Session.Enter(ctx, c)
			if st.Held {
				go func() { <-engine.stop }()
			}
			return st, err
		}
		engine.closeE = func() error { close(engine.stop); return engine.Engine.Close() }
	}},
}

// withoutQueue returns c as a claim that does not queue.
func withoutQueue(c driver.Claim) driver.Claim {
	c.Queue = false
	return c
}

// pollAwait ignores notices and checks only after Pause.
func pollAwait(ctx context.Context, s *overriddenSession, c driver.Claim, last driver.Standing) (driver.Standing, error) {
	pause := last.Pause
	if pause == 0 {
		pause = time.Minute
	}
	select {
	case <-time.After(pause):
		return s.Session.Enter(ctx, c)
	case <-ctx.Done():
		return driver.Standing{}, ctx.Err()
	}
}

// keepAlive beats c for a while after its client has died.
func keepAlive(s *overriddenSession, c driver.Claim, times int) {
	time.AfterFunc(s.TTL()/2, func() {
		out := make([]driver.Standing, 1)
		err := s.Session.Beat(context.Background(), []driver.Claim{c}, out)
		if err == nil && !out[0].Gone && times > 0 {
			keepAlive(s, c, times-1)
		}
	})
}
