package etcdlock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/internal/testserver"
)

// An arena is where contenders of several clients hold one name after the other. It
// judges by itself: a lease is over once it says so, and not before.
type arena struct {
	t      *testing.T
	mu     sync.Mutex // guards what follows
	holder *pawl.Lease
	token  uint64
	holds  int
	told   chan struct{} // closed and replaced at every hold
	faults []string
	c      *testserver.EtcdCluster
}

func (a *arena) enter(l *pawl.Lease) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.holder != nil && a.holder.Err() == nil {
		a.faults = append(a.faults, fmt.Sprintf("two hold: tokens %d and %d", a.holder.Token(), l.Token()))
	}
	if l.Token() <= a.token {
		a.faults = append(a.faults, fmt.Sprintf("token %d after %d", l.Token(), a.token))
	}
	a.holder, a.token = l, l.Token()
	a.holds++
	close(a.told)
	a.told = make(chan struct{})
}

func (a *arena) leave(l *pawl.Lease) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.holder == l {
		a.holder = nil
	}
}

// contend has n clients hold name again and again until the test ends.
func contend(t *testing.T, cluster *testserver.EtcdCluster, name string, ttl time.Duration, n int) *arena {
	a := &arena{t: t, c: cluster, told: make(chan struct{})}
	ctx, cancel := context.WithCancel(t.Context())
	var work sync.WaitGroup
	for range n {
		c := acquainted(t, cluster.Addrs(), ttl)
		work.Go(func() {
			for ctx.Err() == nil {
				l, err := c.Mutex(name).Lock(ctx)
				if err != nil {
					if ctx.Err() == nil {
						t.Errorf("Lock: %v", err)
					}
					return
				}
				a.enter(l)
				select { // work for a while, also through an election
				case <-l.Context().Done():
				case <-time.After(20 * time.Millisecond):
				}
				a.leave(l)
				if err := l.Unlock(); err != nil && !errors.Is(err, pawl.ErrLost) && !errors.Is(err, pawl.ErrUnknown) {
					t.Errorf("Unlock: %v", err)
				}
			}
		})
	}
	t.Cleanup(func() {
		cancel()
		work.Wait()
		a.mu.Lock()
		defer a.mu.Unlock()
		t.Logf("%d holds", a.holds)
		for _, f := range a.faults {
			t.Error(f)
		}
	})
	return a
}

// acquainted returns a client that has had an answer: one that never had gives up
// soon, and on a machine that stands still that is too soon.
func acquainted(t *testing.T, addrs []string, ttl time.Duration) *pawl.Client {
	t.Helper()
	c := client(t, addrs, ttl)
	for begun := time.Now(); ; {
		err := c.Mutex("hello/"+newID()).Do(t.Context(), func(context.Context, *pawl.Lease) error { return nil })
		if err == nil {
			return c
		}
		if time.Since(begun) > patient {
			t.Fatalf("a cluster that serves cannot be locked in: %v", err)
		}
	}
}

// goesOn waits until a waiter has had its turn: the first hold after a fault may
// have been granted before it, the second was not. Four more show that it stays so.
// The limit is for the time in which these members serve; none given: all.
func (a *arena) goesOn(what string, within time.Duration, members ...int) {
	a.t.Helper()
	from := time.Now()
	service := serving(a.t, a.c, members...)
	defer service.Stop()
	var at []time.Duration
	for n := range 6 {
		a.mu.Lock()
		told := a.told
		a.mu.Unlock()
		limit := within
		if n >= 2 {
			limit *= 2
		}
		select {
		case <-told:
			at = append(at, time.Since(from).Round(time.Millisecond))
		case <-service.After(limit):
			a.t.Fatalf("%s: %d holds while the cluster served for %v, at %v", what, n, limit, at)
		case <-time.After(4 * patient):
			a.t.Fatalf("%s: %d holds, at %v; the cluster does not serve", what, n, at)
		}
	}
	a.t.Logf("%s: holds after %v, the cluster served for %v", what, at, service.Served().Round(time.Millisecond))
}

// patient bounds what a cluster needs by itself.
const patient = 30 * time.Second

// serving counts the time in which members of a cluster take writes.
func serving(t *testing.T, c *testserver.EtcdCluster, members ...int) *testserver.Service {
	addrs := c.Addrs()
	if len(members) > 0 {
		addrs = addrsOf(c, members...)
	}
	store := dial(t, addrs)
	return testserver.Serving(t, func(ctx context.Context) error {
		_, err := store.Put(ctx, "service", "")
		return err
	})
}
