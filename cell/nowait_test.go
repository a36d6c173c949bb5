package cell_test

import (
	"sync"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/cell"
	"github.com/pawl-go/pawl/memlock"
)

// The lock is there for the order alone. A client that does not wait for locks, or
// not for long, makes its changes without it.
func TestUpdatesOfAClientThatDoesNotWaitAreExactToo(t *testing.T) {
	t.Parallel()
	for _, wait := range []time.Duration{0, time.Microsecond} {
		engine := memlock.New()
		var all sync.WaitGroup
		const clients, updates = 8, 100
		for range clients {
			all.Go(func() {
				c := pawl.New(engine, pawl.WithWait(wait))
				defer c.Close()
				for range updates {
					if _, err := cell.Update(t.Context(), c, "hot", func(n int) (int, error) { return n + 1, nil }); err != nil {
						t.Errorf("wait %v: %v", wait, err)
						return
					}
				}
			})
		}
		all.Wait()
		c := pawl.New(engine)
		if n, _, err := cell.Load[int](t.Context(), c, "hot"); err != nil || n != clients*updates {
			t.Errorf("wait %v: %d, %v, not %d", wait, n, err, clients*updates)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		engine.Close()
	}
}
