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

// A holdChecker checks that contenders of several clients hold a name one after the other,
// with growing tokens. A hold is over when its lease says so, and not before.
type holdChecker struct {
	t      *testing.T
	mu     sync.Mutex // guards what follows
	holder *pawl.Lease
	token  uint64
	holds  int
	next   chan struct{} // closed and replaced at every hold
	faults []string
	c      *testserver.EtcdCluster
}

func (a *holdChecker) enter(l *pawl.Lease) {
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
	close(a.next)
	a.next = make(chan struct{})
}

func (a *holdChecker) leave(l *pawl.Lease) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.holder == l {
		a.holder = nil
	}
}

// contend makes n clients lock name repeatedly until the test ends.
func contend(t *testing.T, cluster *testserver.EtcdCluster, name string, ttl time.Duration, n int) *holdChecker {
	a := &holdChecker{t: t, c: cluster, next: make(chan struct{})}
	ctx, cancel := context.WithCancel(t.Context())
	var work sync.WaitGroup
	for range n {
		c := connectedClient(t, cluster.Addrs(), ttl)
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
				select { // hold it for a while, also during an election
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

// connectedClient returns a client that had an answer from its store. A client that
// never had one gives up soon, and on a stalled machine that is too soon.
func connectedClient(t *testing.T, addrs []string, ttl time.Duration) *pawl.Client {
	t.Helper()
	c := client(t, addrs, ttl)
	for begun := time.Now(); ; {
		err := c.Mutex("hello/"+newID()).Do(t.Context(), func(context.Context, *pawl.Lease) error { return nil })
		if err == nil {
			return c
		}
		if time.Since(begun) > clusterTimeout {
			t.Fatalf("locking in a healthy cluster: %v", err)
		}
	}
}

// goesOn waits for six more holds: the first after a fault may have been granted before
// it, the second was not, and four more show that the cluster keeps working. The limit
// counts only the time in which the given members, or all, take writes.
func (a *holdChecker) goesOn(what string, within time.Duration, members ...int) {
	a.t.Helper()
	from := time.Now()
	service := serving(a.t, a.c, members...)
	defer service.Stop()
	var at []time.Duration
	for n := range 6 {
		a.mu.Lock()
		next := a.next
		a.mu.Unlock()
		limit := within
		if n >= 2 {
			limit *= 2
		}
		select {
		case <-next:
			at = append(at, time.Since(from).Round(time.Millisecond))
		case <-service.After(limit):
			a.t.Fatalf("%s: %d holds while the cluster served for %v, at %v", what, n, limit, at)
		case <-time.After(4 * clusterTimeout):
			a.t.Fatalf("%s: %d holds, at %v; the cluster does not serve", what, n, at)
		}
	}
	a.t.Logf("%s: holds after %v, the cluster served for %v", what, at, service.Served().Round(time.Millisecond))
}

// clusterTimeout bounds elections and restarts of a cluster.
const clusterTimeout = 30 * time.Second

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
