// Package interop tests that pawl and other clients of the plain recipe (SET with
// NX and PX, release by compare-and-delete) exclude each other on one key.
package interop

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/pawl-go/pawl/internal/testserver"
)

const (
	key   = "shop/orders/42"
	ttl   = 10 * time.Second
	each  = 4    // clients of each kind
	share = 5    // holds that every client must have
	all   = 1000 // holds of all clients together
)

// A client contends for the key.
type client struct {
	name string
	lock func(ctx context.Context) (unlock func() error, err error)
	// rest is the longest pause between two holds. Clients that queue hand the key
	// on to each other, so that clients that poll only get it during such pauses.
	rest time.Duration
}

func TestPawlAndOtherClientsExcludeEachOtherOnOneKey(t *testing.T) {
	t.Parallel()
	server := testserver.Redis(t)
	var clients []client
	for i := range each {
		clients = append(clients,
			pawlClient(t, server.Addr(), i),
			redsyncClient(t, server.Addr(), i),
			redislockClient(t, server.Addr(), i),
			bareClient(t, server.Addr(), i))
	}
	// No wait is cut short at the end, because some clients would leave their key
	// behind.
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var inside, overlaps, sum, missing atomic.Int64
	missing.Store(int64(len(clients))) // clients that have not had their share yet
	turns := make([]int, len(clients))
	var group sync.WaitGroup
	for i, c := range clients {
		group.Go(func() {
			for sum.Load() < all || missing.Load() > 0 {
				unlock, err := c.lock(ctx)
				if err != nil {
					t.Errorf("%s: lock: %v", c.name, err)
					return
				}
				if inside.Add(1) != 1 {
					overlaps.Add(1)
				}
				time.Sleep(rand.N(4 * time.Millisecond)) // the work
				inside.Add(-1)
				if err := unlock(); err != nil {
					t.Errorf("%s: unlock: %v", c.name, err)
					return
				}
				sum.Add(1)
				if turns[i]++; turns[i] == share {
					missing.Add(-1)
				}
				time.Sleep(rand.N(c.rest))
			}
		})
	}
	group.Wait()
	if n := overlaps.Load(); n != 0 {
		t.Errorf("%d overlaps", n)
	}
	for i, c := range clients {
		t.Logf("%-14s %5d turns", c.name, turns[i])
		if turns[i] < share {
			t.Errorf("%s had only %d turns", c.name, turns[i])
		}
	}
	expectFree(t, server.Addr())
}

// expectFree fails if the key was left behind.
func expectFree(t *testing.T, addr string) {
	t.Helper()
	value, err := dial(t, addr).Get(t.Context(), key).Result()
	if !errors.Is(err, goredis.Nil) {
		t.Errorf("the key is still %q, %v", value, err)
	}
}

func name(kind string, i int) string { return fmt.Sprintf("%s %d", kind, i) }
