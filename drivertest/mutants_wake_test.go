package drivertest_test

import (
	"context"
	"errors"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// wakeMutants break the laws of waiting.
var wakeMutants = []mutant{
	{"a push engine polls", 6, func(b *bent) {
		b.await = nap
	}},
	{"a cancelled wait swallows its turn", 6, func(b *bent) {
		swallowed := map[string]bool{}
		b.await = func(ctx context.Context, s *bentSession, c driver.Claim, last driver.Standing) (driver.Standing, error) {
			b.mu.Lock()
			deaf := swallowed[c.ID]
			b.mu.Unlock()
			if deaf {
				return nap(ctx, s, c, last)
			}
			st, err := s.Session.Await(ctx, c, last)
			b.mu.Lock()
			swallowed[c.ID] = err != nil
			b.mu.Unlock()
			return st, err
		}
	}},
	{"leave wakes everybody", 7, func(b *bent) {
		bell := make(chan struct{})
		b.leave = func(ctx context.Context, s *bentSession, c driver.Claim) error {
			err := s.Session.Leave(ctx, c)
			b.mu.Lock()
			defer b.mu.Unlock()
			close(bell)
			bell = make(chan struct{})
			return err
		}
		b.await = func(ctx context.Context, s *bentSession, c driver.Claim, last driver.Standing) (driver.Standing, error) {
			b.mu.Lock()
			rung := bell
			b.mu.Unlock()
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
	{"await ignores its ctx", 10, func(b *bent) {
		b.await = func(ctx context.Context, s *bentSession, c driver.Claim, last driver.Standing) (driver.Standing, error) {
			return s.Session.Await(context.WithoutCancel(ctx), c, last)
		}
	}},
	{"await hides its ctx's error", 10, func(b *bent) {
		b.await = func(ctx context.Context, s *bentSession, c driver.Claim, last driver.Standing) (driver.Standing, error) {
			st, err := s.Session.Await(ctx, c, last)
			if err != nil && ctx.Err() != nil {
				err = errors.New("timed out")
			}
			return st, err
		}
	}},
	{"an unknown claim waits on", 10, func(b *bent) {
		b.await = func(ctx context.Context, s *bentSession, c driver.Claim, last driver.Standing) (driver.Standing, error) {
			st, err := s.Session.Await(ctx, c, last)
			if st.Gone {
				return nap(ctx, s, c, driver.Standing{Pause: time.Minute})
			}
			return st, err
		}
	}},
	{"a goroutine per held claim", 9, func(b *bent) {
		b.stop = make(chan struct{})
		b.enter = func(ctx context.Context, s *bentSession, c driver.Claim) (driver.Standing, error) {
			st, err := s.Session.Enter(ctx, c)
			if st.Held {
				go func() { <-b.stop }()
			}
			return st, err
		}
		b.closeE = func() error { close(b.stop); return b.Engine.Close() }
	}},
}

// tried returns c as a claim that does not stand in line.
func tried(c driver.Claim) driver.Claim {
	c.Queue = false
	return c
}

// nap looks only when Pause is over.
func nap(ctx context.Context, s *bentSession, c driver.Claim, last driver.Standing) (driver.Standing, error) {
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

// keepAlive beats a claim that its client has forgotten, for a while.
func keepAlive(s *bentSession, c driver.Claim, times int) {
	time.AfterFunc(s.TTL()/2, func() {
		out := make([]driver.Standing, 1)
		err := s.Session.Beat(context.Background(), []driver.Claim{c}, out)
		if err == nil && !out[0].Gone && times > 0 {
			keepAlive(s, c, times-1)
		}
	})
}
