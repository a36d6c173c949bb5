package pawl

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl/memlock"
)

// bubble runs fn in a synctest bubble with a client on a fresh memory engine.
func bubble(t *testing.T, fn func(t *testing.T, c *Client), opts ...Option) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := New(memlock.New(), opts...)
		defer c.Close()
		fn(t, c)
	})
}

// second returns a further client on c's engine, as another process would have.
func second(t *testing.T, c *Client, opts ...Option) *Client {
	d := New(c.engine, opts...)
	t.Cleanup(func() { d.Close() })
	return d
}

func must(t *testing.T) func(*Lease, error) *Lease {
	return func(l *Lease, err error) *Lease {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
}

func wantErr(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("got %v, want %v", err, want)
	}
}

// listed counts the claims in the store.
func listed(t *testing.T, c *Client) (n int) {
	t.Helper()
	for _, err := range c.List(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	return n
}

func TestLockAndUnlock(t *testing.T) {
	bubble(t, func(t *testing.T, c *Client) {
		m := c.Mutex("a")
		l := must(t)(m.Lock(t.Context()))
		if l.Token() == 0 || l.Name() != "a" || l.Err() != nil || l.Context().Err() != nil {
			t.Fatalf("a fresh lease: %+v", l)
		}
		if left := time.Until(l.Deadline()); left != 9500*time.Millisecond {
			t.Fatalf("deadline in %v", left)
		}
		_, err := second(t, c).Mutex("a").TryLock(t.Context())
		wantErr(t, err, ErrHeld)
		if held, ok := errors.AsType[*HeldError](err); !ok || held.Holder == nil || held.Holder.Note != whoami() {
			t.Fatalf("who: %v", err)
		}
		if err := l.Unlock(); err != nil {
			t.Fatal(err)
		}
		wantErr(t, context.Cause(l.Context()), ErrReleased)
		wantErr(t, l.Unlock(), ErrNotHeld)
		if n := listed(t, c); n != 0 {
			t.Fatalf("%d claims left", n)
		}
		next := must(t)(m.Lock(t.Context()))
		if next.Token() <= l.Token() {
			t.Fatal("the token did not grow")
		}
		next.Unlock()
	})
}

func TestALeaseIsRenewedForAsLongAsItIsHeld(t *testing.T) {
	bubble(t, func(t *testing.T, c *Client) {
		l := must(t)(c.Mutex("a").Lock(t.Context()))
		time.Sleep(10 * time.Minute)
		if err := l.Err(); err != nil {
			t.Fatal(err)
		}
		if err := l.Unlock(); err != nil {
			t.Fatal(err)
		}
	})
}

func TestManyClientsTakeTurns(t *testing.T) {
	bubble(t, func(t *testing.T, c *Client) {
		var inside, holds atomic.Int64
		var wg sync.WaitGroup
		var last uint64
		for range 8 {
			d := second(t, c)
			for range 8 {
				wg.Go(func() {
					for range 20 {
						l, err := d.Mutex("a").Lock(t.Context())
						if err != nil {
							t.Error(err)
							return
						}
						if inside.Add(1) != 1 {
							t.Error("two at a time")
						}
						if tok := l.Token(); tok <= last {
							t.Errorf("token %d after %d", tok, last)
						} else {
							last = tok
						}
						time.Sleep(time.Millisecond)
						holds.Add(1)
						inside.Add(-1)
						if err := l.Unlock(); err != nil {
							t.Error(err)
						}
					}
				})
			}
		}
		wg.Wait()
		if holds.Load() != 8*8*20 {
			t.Fatal(holds.Load())
		}
		synctest.Wait()
		if n := listed(t, c); n != 0 {
			t.Fatalf("%d claims left", n)
		}
	})
}
