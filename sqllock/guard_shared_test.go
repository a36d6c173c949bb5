package sqllock_test

import (
	"context"
	"database/sql"
	"sync"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/sqllock"
)

// Readers and permits do not exclude each other, whatever one of them has guarded: others
// come and go, and other names have connections. Those that it excludes wait for the
// commit, in line.
func TestAGuardedReaderOrPermitStopsNobodyElse(t *testing.T) {
	r := pushed(t)
	for what, take := range map[string]func(c *pawl.Client, name string) (shared, all taker){
		"reader": func(c *pawl.Client, name string) (shared, all taker) {
			return c.RWMutex(name).RLock, c.RWMutex(name).Lock
		},
		"permit": func(c *pawl.Client, name string) (shared, all taker) {
			s := c.Semaphore(name, 20)
			return func(ctx context.Context) (*pawl.Lease, error) { return s.Acquire(ctx, 1) },
				func(ctx context.Context) (*pawl.Lease, error) { return s.Acquire(ctx, 20) }
		},
	} {
		t.Run(what, func(t *testing.T) {
			c, name := openClient(t, r.url), nameOf(t)
			shared, all := take(c, name)
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			guarded, err := shared(ctx)
			if err != nil {
				t.Fatal(err)
			}
			tx := r.begin(t, sql.LevelDefault)
			if err := sqllock.Guard(ctx, tx, guarded); err != nil {
				t.Fatal(err)
			}
			var others sync.WaitGroup
			for i := range 16 { // as many as the pool has connections
				others.Go(func() {
					if err := takeAndUnlock(ctx, shared); err != nil {
						t.Errorf("the %d. beside it: %v", i, err)
					}
				})
			}
			others.Go(func() {
				if err := takeAndUnlock(ctx, c.Mutex(name+"/other").Lock); err != nil {
					t.Errorf("another name: %v", err)
				}
			})
			others.Wait()
			if err := guarded.Unlock(); err != nil {
				t.Errorf("the guarded one: %v", err)
			}
			granted := make(chan error, 1)
			go func() { granted <- takeAndUnlock(ctx, all) }() // awaited below
			select {
			case err := <-granted:
				t.Fatalf("one that it excludes came before the commit: %v", err)
			case <-time.After(100 * time.Millisecond):
			}
			if err := tx.Commit(); err != nil {
				t.Error(err)
			}
			if err := <-granted; err != nil {
				t.Errorf("after the commit: %v", err)
			}
		})
	}
}

func takeAndUnlock(ctx context.Context, take taker) error {
	l, err := take(ctx)
	if err != nil {
		return err
	}
	return l.Unlock()
}
