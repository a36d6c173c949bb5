package sqllock_test

import (
	"context"
	"database/sql"
	"sync"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/testserver"
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

// A hold is given back while its guard is open, and the guarded transaction ends later:
// without a notice, so the next claim has to look for that by itself, also where it is
// not told of the release and polls, as behind a pooler.
func TestTheNextClaimIsGrantedSoonAfterAGuardHasEnded(t *testing.T) {
	r := pushed(t)
	const ttl = 30 * time.Second
	reader := func(name string) driver.Claim {
		c := mutex(name)
		c.Limit = driver.All
		return c
	}
	leave := func(s driver.Session, c driver.Claim) error { return s.Leave(t.Context(), c) }
	closed := func(s driver.Session, _ driver.Claim) error { return s.Close(t.Context()) }
	pooled := r.via(testserver.PgBouncer(t, r.server, "transaction").Addr())
	for what, way := range map[string]struct {
		store string
		claim func(name string) driver.Claim
		end   func(driver.Session, driver.Claim) error
	}{
		"a reader that leaves":                     {r.url, reader, leave},
		"a reader whose session is closed":         {r.url, reader, closed},
		"a mutex whose session is closed":          {r.url, mutex, closed},
		"a reader that leaves, behind a pooler":    {pooled, reader, leave},
		"a reader that is closed, behind a pooler": {pooled, reader, closed},
		"a mutex that leaves, behind a pooler":     {pooled, mutex, leave},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			name := nameOf(t)
			holder, waiter := openSession(t, r.engine(t), ttl), openSession(t, openEngine(t, way.store), ttl)
			h, w := way.claim(name), mutex(name)
			w.Need, w.Limit = driver.All, driver.All
			tx := r.begin(t, sql.LevelDefault)
			if err := sqllock.Guard(t.Context(), tx, &zombie{h, hold(t, holder, h).Token}); err != nil {
				t.Fatal(err)
			}
			got := awaitHeld(t, waiter, w, enter(t, waiter, w))
			time.Sleep(500 * time.Millisecond) // until it listens or polls, and has looked
			if err := way.end(holder, h); err != nil {
				t.Fatal(err)
			}
			select {
			case <-got:
				t.Fatal("granted beside the open guard")
			case <-time.After(200 * time.Millisecond):
			}
			if err := tx.Commit(); err != nil {
				t.Fatal(err)
			}
			committed := time.Now()
			select {
			case <-got:
				t.Logf("granted after %v", time.Since(committed))
			case <-time.After(ttl / 3): // before the first beat
				t.Errorf("not granted %v after the commit, with nothing held and a TTL of %v", ttl/3, ttl)
			}
		})
	}
}
