// Package holdcheck has clients take one name over and over while a test brings faults to
// their store, and checks that they hold it one after the other.
package holdcheck

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

// hold is how long every contender holds.
const hold = 20 * time.Millisecond

// noService bounds the time in which a store does not serve at all.
const noService = 2 * time.Minute

// A Checker checks that contenders of several clients hold a name one after the other,
// with growing tokens. A hold is over when its lease says so, and not before.
type Checker struct {
	t      testing.TB
	mu     sync.Mutex // guards what follows
	holder *pawl.Lease
	token  uint64
	holds  int
	next   chan struct{} // closed and replaced at every hold
	faults []string
}

// Contend makes every client lock name over and over until the test ends.
func Contend(t testing.TB, name string, clients ...*pawl.Client) *Checker {
	c := &Checker{t: t, next: make(chan struct{})}
	ctx, cancel := context.WithCancel(t.Context())
	var work sync.WaitGroup
	for _, client := range clients {
		work.Go(func() { c.contend(ctx, client.Mutex(name)) })
	}
	t.Cleanup(func() {
		cancel()
		work.Wait()
		c.mu.Lock()
		defer c.mu.Unlock()
		t.Logf("%d holds", c.holds)
		for _, f := range c.faults {
			t.Error(f)
		}
	})
	return c
}

func (c *Checker) contend(ctx context.Context, m *pawl.Mutex) {
	for ctx.Err() == nil {
		l, err := m.Lock(ctx)
		if err != nil {
			if ctx.Err() == nil {
				c.t.Errorf("Lock: %v", err)
			}
			return
		}
		c.enter(l)
		select { // hold it for a while, also during an election
		case <-l.Context().Done():
		case <-time.After(hold):
		}
		c.leave(l)
		if err := l.Unlock(); err != nil && !errors.Is(err, pawl.ErrLost) && !errors.Is(err, pawl.ErrUnknown) {
			c.t.Errorf("Unlock: %v", err)
		}
	}
}

func (c *Checker) enter(l *pawl.Lease) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.holder != nil && c.holder.Err() == nil {
		c.faults = append(c.faults, fmt.Sprintf("two hold: tokens %d and %d", c.holder.Token(), l.Token()))
	}
	if l.Token() <= c.token {
		c.faults = append(c.faults, fmt.Sprintf("token %d after %d", l.Token(), c.token))
	}
	c.holder, c.token = l, l.Token()
	c.holds++
	close(c.next)
	c.next = make(chan struct{})
}

func (c *Checker) leave(l *pawl.Lease) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.holder == l {
		c.holder = nil
	}
}

// GoesOn waits for six more holds: the first after a fault may have been granted before
// it, the second was not, and four more show that the store keeps working. The limit
// counts only the time that service does.
func (c *Checker) GoesOn(what string, within time.Duration, service *testserver.Service) {
	c.t.Helper()
	from := time.Now()
	defer service.Stop()
	var at []time.Duration
	for n := range 6 {
		c.mu.Lock()
		next := c.next
		c.mu.Unlock()
		limit := within
		if n >= 2 {
			limit *= 2
		}
		select {
		case <-next:
			at = append(at, time.Since(from).Round(time.Millisecond))
		case <-service.After(limit):
			c.t.Fatalf("%s: %d holds while the servers served for %v, at %v", what, n, limit, at)
		case <-time.After(noService):
			c.t.Fatalf("%s: %d holds, at %v; the servers do not serve", what, n, at)
		}
	}
	c.t.Logf("%s: holds after %v, the servers served for %v", what, at, service.Served().Round(time.Millisecond))
}
