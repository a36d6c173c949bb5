package engines_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/internal/faultproxy"
	"github.com/pawl-go/pawl/internal/recipetest"
)

// The holder was evicted, another client holds the lock, and the connection is cut
// while the holder unlocks: the result may be that the lock was lost or that the
// outcome is unknown, never success.
func TestUnlockOfAnEvictedLeaseOverACutLinkIsNoSuccess(t *testing.T) {
	t.Parallel()
	recipetest.EachShared(t, func(t *testing.T, s *recipetest.Store) {
		if !s.Served() {
			return // there is no connection to cut
		}
		through, proxies := s.Through(t)
		other := recipetest.On(s.URL)(t)
		l, err := through(t).Mutex("a").Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		line, err := other.Line(t.Context(), "a")
		if err != nil || len(line) != 1 || line[0].ID != l.ID() {
			t.Fatalf("the line is %+v, %v", line, err)
		}
		silence(proxies) // nothing notifies the holder
		if err := other.Evict(t.Context(), line[0]); err != nil {
			t.Fatal(err)
		}
		rival, err := other.Mutex("a").Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(100*time.Millisecond, func() { // while Unlock waits for an answer
			for _, p := range proxies {
				p.Reset()
			}
			heal(proxies)
		})
		if err := l.Unlock(); !errors.Is(err, pawl.ErrLost) && !errors.Is(err, pawl.ErrUnknown) {
			t.Errorf("Unlock: %v, a rival holds the lock", err)
		}
		if err := rival.Err(); err != nil {
			t.Errorf("the rival: %v", err)
		}
		if err := rival.Unlock(); err != nil {
			t.Error(err)
		}
	})
}

// A Lock is cancelled while its request is on its way, which takes long, and its client is
// closed: if Close says that nothing is left, the name is free when everything has arrived.
func TestALockThatIsCancelledOnItsWayIsFreeAfterClose(t *testing.T) {
	t.Parallel()
	recipetest.EachShared(t, func(t *testing.T, s *recipetest.Store) {
		if !s.Served() {
			return // nothing is on its way to a file
		}
		const delay, rounds = 300 * time.Millisecond, 3
		rival, unknown := recipetest.On(s.URL)(t), 0
		use := func(c *pawl.Client, name string) error {
			l, err := c.Mutex(name).TryLock(t.Context())
			if err == nil {
				err = l.Unlock()
			}
			return err
		}
		for i := range rounds {
			through, proxies := s.Through(t)
			c := through(t)
			if err := use(c, fmt.Sprint("before ", i)); err != nil {
				t.Fatal(err)
			}
			for _, p := range proxies {
				p.Delay(faultproxy.ToServer, delay)
			}
			ctx, cancel := context.WithTimeout(t.Context(), delay/3)
			name := fmt.Sprint("cancelled ", i)
			if _, err := c.Mutex(name).Lock(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Lock: %v", err)
			}
			cancel()
			if err := c.Close(); err != nil {
				t.Logf("Close: %v", err)
				unknown++
				continue
			}
			heal(proxies)
			if err := use(through(t), fmt.Sprint("after ", i)); err != nil { // behind all that was on its way
				t.Fatal(err)
			}
			if err := use(rival, name); err != nil {
				t.Errorf("round %d: %v", i, err)
			}
		}
		if unknown == rounds {
			t.Error("Close failed each time")
		}
	})
}
