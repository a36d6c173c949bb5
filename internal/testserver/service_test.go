package testserver

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestOnlyTimeInWhichServersServeIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var takes atomic.Int64 // duration of an answer
		var fails atomic.Bool
		s := Serving(t, func(ctx context.Context) error {
			select {
			case <-time.After(time.Duration(takes.Load())):
				if fails.Load() {
					return errors.New("no leader")
				}
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
		late := s.After(20 * time.Second)
		time.Sleep(10 * time.Second)
		if got := s.Served(); got < 9*time.Second || got > 10*time.Second {
			t.Errorf("in ten seconds of good service %v are counted", got)
		}
		before := s.Served()
		fails.Store(true)
		time.Sleep(time.Minute)
		fails.Store(false)
		takes.Store(int64(time.Minute))
		time.Sleep(time.Minute)
		if got := s.Served() - before; got > serviceTick {
			t.Errorf("in two minutes without service %v are counted", got)
		}
		takes.Store(int64(10 * serviceTick / 4)) // answers slowly
		before = s.Served()
		time.Sleep(10 * time.Second)
		if got := s.Served() - before; got < 2*time.Second || got > 5*time.Second {
			t.Errorf("in ten seconds of slow service %v are counted", got)
		}
		takes.Store(0)
		<-late
		if got := s.Served(); got < 20*time.Second || got > 21*time.Second {
			t.Errorf("After 20 s is told at %v", got)
		}
		s.Stop()
	})
}
