package sqllock_test

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/sqllock"
)

// Two goroutines that share a holder's context keep each other out by nested
// locks. A nested lease that was given back before the commit must not let the
// next one's transaction in beside it.
func TestNestedLeasesWaitForEachOthersGuardedTransactions(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, r *rig) {
		c := openClient(t, r.url, pawl.WithReentry())
		overtook, lost := 0, 0
		for range passRuns {
			m, key := c.Mutex(nameOf(t)), r.ledger(t)
			outer, err := m.Lock(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			nested := func() *pawl.Lease {
				l, err := m.Lock(outer.Context())
				if err != nil {
					t.Error(err)
				}
				return l
			}
			first := nested()
			tx := r.begin(t, sql.LevelDefault)
			if err := sqllock.Guard(t.Context(), tx, first); err != nil {
				t.Fatal(err)
			}
			n := r.count(t, tx, key)
			if err := first.Unlock(); err != nil {
				t.Fatal(err)
			}
			next := make(chan struct{})
			go func() {
				defer close(next)
				l := nested()
				r.raise(t, key, l)
				_ = l.Unlock()
			}()
			select {
			case <-next:
				overtook++
			case <-time.After(100 * time.Millisecond):
			}
			r.setCount(t, tx, key, n+1)
			<-next
			if r.number(t, "SELECT writes FROM ledger WHERE name = ?", key) != 2 {
				lost++
			}
			if err := outer.Unlock(); err != nil {
				t.Error(err)
			}
		}
		if overtook+lost > 0 {
			t.Errorf("of %d runs the next nested lease overtook the guarded commit in %d, and an update was lost in %d", passRuns, overtook, lost)
		}
	})
}

// A function that locks, guards the transaction that it is given and unlocks may be
// called again in the same transaction.
func TestNestedLeasesGuardOneTransactionAgainAndAgain(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, r *rig) {
		c := openClient(t, r.url, pawl.WithReentry())
		m := c.Mutex(nameOf(t))
		outer, err := m.Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		tx := r.begin(t, sql.LevelDefault)
		for i := range 3 {
			l, err := m.Lock(outer.Context())
			if err != nil {
				t.Fatal(err)
			}
			if err := sqllock.Guard(ctx, tx, l); err != nil {
				t.Errorf("guard %d: %v", i, err)
			}
			if err := l.Unlock(); err != nil {
				t.Error(err)
			}
		}
		if err := tx.Commit(); err != nil {
			t.Error(err)
		}
		if err := outer.Unlock(); err != nil {
			t.Error(err)
		}
	})
}
