package kvline_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl/driverkit/kvline"
)

// adjusted is a store whose clock can be set. Like a store in a network, it is asked for
// the time only where an earlier answer is too old.
type adjusted struct {
	*memory
	mu     *sync.Mutex    // guards what follows
	by     *time.Duration // how far it was set forward
	read   time.Time      // the last answer
	readAt time.Time
}

func (a *adjusted) present() time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	return time.Now().Add(*a.by)
}

func (a *adjusted) Put(ctx context.Context, key string, v kvline.Value, keep time.Duration) (uint64, error) {
	revision, err := a.memory.Put(ctx, key, v, keep)
	if err == nil {
		a.memory.mu.Lock()
		defer a.memory.mu.Unlock()
		written := a.values[key]
		written.Time = a.present()
		a.values[key] = written
	}
	return revision, err
}

func (a *adjusted) Now(ctx context.Context, maxAge time.Duration) (time.Time, error) {
	now := a.present()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.readAt.IsZero() || time.Since(a.readAt) > maxAge {
		a.read, a.readAt = now, time.Now()
	}
	return a.read.Add(time.Since(a.readAt)), ctx.Err()
}

// The store's clock is set forward, the holder is prolonged, and dies. The waiter has
// asked for the time before.
func TestAClockThatWasSetKeepsNoWaiterFromItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, mu, by := newMemory(), new(sync.Mutex), new(time.Duration)
		holder := open(t, &adjusted{memory: m, mu: mu, by: by}, "one")
		waiter := open(t, &adjusted{memory: m, mu: mu, by: by}, "two")
		enter(t, holder, queued("holder"))
		at := awaited(t, waiter, queued("waiter"), enter(t, waiter, queued("waiter")), 10*ttl)
		time.Sleep(ttl / 4)
		mu.Lock()
		*by = ttl / 2
		mu.Unlock()
		beat(t, holder, queued("holder"))
		died := time.Now()
		beat(t, waiter, queued("waiter"))
		for range 30 {
			time.Sleep(ttl / 3)
			if out := beat(t, waiter, queued("waiter")); out[0].Held {
				break
			}
		}
		if took := (<-at).Sub(died); took < ttl-time.Second || took > ttl+time.Second {
			t.Errorf("the wait ended %v after the holder died, with a TTL of %v", took, ttl)
		}
	})
}

// slow is a store whose answer about a key or the time takes a second.
type slow struct {
	*memory
	asked atomic.Int64 // when it was asked for the time, as Unix time; 0: never
}

func (s *slow) Get(ctx context.Context, key string) (kvline.Value, error) {
	time.Sleep(time.Second)
	return s.memory.Get(ctx, key)
}

func (s *slow) Now(ctx context.Context, maxAge time.Duration) (time.Time, error) {
	if asked := s.asked.Load(); asked == 0 || time.Since(time.Unix(0, asked)) > maxAge {
		time.Sleep(time.Second)
		s.asked.Store(time.Now().UnixNano())
	}
	return s.memory.Now(ctx, maxAge)
}

func TestALineIsReadWhileTheTimeIsAskedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemory()
		enter(t, open(t, store, "one"), queued("holder"))
		two := open(t, &slow{memory: store}, "two")
		time.Sleep(5500 * time.Millisecond) // what it knows of the time is too old
		began := time.Now()
		if _, err := two.Enter(t.Context(), queued("waiter")); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took != 2*time.Second { // the line, and whether the holder lives
			t.Errorf("it took %v", took)
		}
	})
}
