package redislock_test

import (
	"context"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/internal/testserver"
)

// On a server that is out of memory, a script that has begun to write may go on. So
// renewals, releases and handoffs begin with a write that is always permitted.
func TestHoldersAndWaitersGoOnWithoutMemory(t *testing.T) {
	t.Parallel()
	const ttl = steady
	s := testserver.Redis(t)
	at := newConsole(t, s.Addr())
	c, other := open(t, "redis://"+s.Addr(), pawl.WithTTL(ttl)), open(t, "redis://"+s.Addr(), pawl.WithTTL(ttl))
	m := lock(t, c.Mutex("mutex"))
	r, err := c.RWMutex("shared").RLock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	waiting := make(chan *pawl.Lease, 2)
	for _, wait := range []func(context.Context) (*pawl.Lease, error){other.Mutex("mutex").Lock, other.RWMutex("shared").Lock} {
		go func() {
			l, err := wait(t.Context())
			if err != nil {
				t.Errorf("a wait that began before memory was out: %v", err)
			}
			waiting <- l
		}()
	}
	until(t, 5*time.Second, "two waiters", func() bool {
		return at.do("EXISTS", "pawl:\x01hmutex\x01w", "pawl:\x01hshared\x01w") == "2"
	})
	at.do("CONFIG", "SET", "maxmemory", "1mb")
	if _, err := at.try("SET", "x", "y"); err == nil {
		t.Fatal("memory is not out: the test tests nothing")
	}
	outlast(ttl) // by renewals
	if m.Err() != nil || r.Err() != nil {
		t.Fatalf("the holds are over: %v, %v", m.Err(), r.Err())
	}
	unlock(t, m)
	unlock(t, r)
	for range 2 {
		select {
		case l := <-waiting:
			if l != nil {
				unlock(t, l)
			}
		case <-time.After(5 * time.Second):
			t.Fatal("a handoff does not happen without memory")
		}
	}
	if _, err := c.Mutex("new").TryLock(t.Context()); err == nil {
		t.Error("a new lock was granted without memory")
	}
	at.do("CONFIG", "SET", "maxmemory", "0")
	unlock(t, lock(t, c.Mutex("new")))
}
