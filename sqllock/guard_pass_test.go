package sqllock_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/stalltest"
	"github.com/pawl-go/pawl/sqllock"
)

// passRuns is how often an order of events is tried.
const passRuns = 8

// count reads a ledger's entry in a transaction, as that sees it.
func (r *rig) count(t testing.TB, tx *sql.Tx, key string) (n int64) {
	t.Helper()
	if err := tx.QueryRowContext(t.Context(), r.marked("SELECT writes FROM ledger WHERE name = ?"), key).Scan(&n); err != nil {
		t.Error(err)
	}
	return n
}

// setCount writes what was worked out from what count has read.
func (r *rig) setCount(t testing.TB, tx *sql.Tx, key string, n int64) {
	t.Helper()
	if _, err := tx.ExecContext(t.Context(), r.marked("UPDATE ledger SET writes = ? WHERE name = ?"), n, key); err != nil {
		t.Error(err)
	}
	if err := tx.Commit(); err != nil {
		t.Error(err)
	}
}

func (r *rig) begin(t testing.TB, level sql.IsolationLevel) *sql.Tx {
	t.Helper()
	tx, err := r.db.BeginTx(t.Context(), &sql.TxOptions{Isolation: level})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback() })
	return tx
}

// raise adds one to a ledger's entry in a transaction that is guarded by a lease.
func (r *rig) raise(t testing.TB, key string, lease driver.Grant) {
	t.Helper()
	tx := r.begin(t, sql.LevelDefault)
	if err := sqllock.Guard(t.Context(), tx, lease); err != nil {
		t.Error(err)
		_ = tx.Rollback()
		return
	}
	r.setCount(t, tx, key, r.count(t, tx, key)+1)
}

// A taker takes one lock, in one way.
type taker = func(ctx context.Context) (*pawl.Lease, error)

// overtakes has the holder's transaction be guarded and open when it gives the lock
// back, and another goroutine of the process wait for it: that one must add to the
// ledger's entry after the commit, not to what was there before.
// Where it is to be in line, that is certain, else it is mostly on its way there.
func (r *rig) overtakes(t *testing.T, c *pawl.Client, inLine bool, first, next taker) (overtook, lost bool) {
	key := r.ledger(t)
	held, err := first(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	tx := r.begin(t, sql.LevelDefault)
	if err := sqllock.Guard(t.Context(), tx, held); err != nil {
		t.Fatal(err)
	}
	n := r.count(t, tx, key)
	done, left := make(chan struct{}), make(chan error, 1)
	go func() {
		defer close(done)
		l, err := next(t.Context())
		if err != nil {
			t.Error(err)
			return
		}
		r.raise(t, key, l)
		if err := l.Unlock(); err != nil {
			t.Error(err)
		}
	}()
	time.Sleep(time.Millisecond) // mostly, the other stands in the gate
	parts, begun := held.Parts(), time.Now()
	for line := []driver.Entry(nil); inLine && len(line) < 2; time.Sleep(time.Millisecond) {
		if line, err = c.Line(t.Context(), parts[len(parts)-1].Name()); err != nil || time.Since(begun) > 30*time.Second {
			t.Fatalf("the other is not in line for %q: %+v, %v", parts[len(parts)-1].Name(), line, err)
		}
	}
	go func() { left <- held.Unlock() }()
	select {
	case <-done:
		overtook = true
	case <-time.After(100 * time.Millisecond):
	}
	r.setCount(t, tx, key, n+1)
	committed := time.Now()
	<-done
	// A commit sends no notice; the next claim must not wait for the hold's expiry.
	if took := time.Since(committed); r.name == "postgres" && took > 5*time.Second {
		t.Errorf("the next claim was granted %v after the commit, at a TTL of 10 s; it took %q", took, held.Name())
	}
	if err := <-left; err != nil {
		t.Errorf("unlock: %v", err)
	}
	return overtook, r.number(t, "SELECT writes FROM ledger WHERE name = ?", key) != 2
}

func TestALockIsNotPassedOnWhileAGuardedTransactionIsOpen(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, r *rig) {
		c := openClient(t, r.url)
		all := func(names ...string) taker {
			return func(ctx context.Context) (*pawl.Lease, error) { return c.LockAll(ctx, names) }
		}
		permits := func(name string) taker {
			return func(ctx context.Context) (*pawl.Lease, error) { return c.Semaphore(name, 3).Acquire(ctx, 3) }
		}
		for what, way := range map[string]struct {
			runs  int
			locks func(name string) (first, next taker)
		}{
			"mutex":               {passRuns, func(n string) (taker, taker) { return c.Mutex(n).Lock, c.Mutex(n).Lock }},
			"writer":              {3, func(n string) (taker, taker) { return c.RWMutex(n).Lock, c.RWMutex(n).Lock }},
			"writer after reader": {3, func(n string) (taker, taker) { return c.RWMutex(n).RLock, c.RWMutex(n).Lock }},
			"all permits":         {3, func(n string) (taker, taker) { return permits(n), permits(n) }},
			"several names":       {3, func(n string) (taker, taker) { return all(n+"/1", n+"/2"), all(n+"/2", n+"/3") }},
		} {
			overtook, lost := 0, 0
			for i := range way.runs {
				first, next := way.locks(nameOf(t))
				// Elsewhere, and behind a guarded reader, it stands in line after the commit.
				o, l := r.overtakes(t, c, r.name == "postgres" && i%2 == 1 && what != "writer after reader", first, next)
				if o {
					overtook++
				}
				if l {
					lost++
				}
			}
			if overtook+lost > 0 {
				t.Errorf("%s: of %d runs the next holder overtook the guarded commit in %d, and an update was lost in %d", what, way.runs, overtook, lost)
			}
		}
	})
}

// passed has a lease that was passed on inside the process, by a holder that added
// to the ledger's entry. before runs while the first one holds.
func (r *rig) passed(t testing.TB, c *pawl.Client, key string, before func()) *pawl.Lease {
	t.Helper()
	for range 200 {
		m := c.Mutex(nameOf(t))
		first, err := m.Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		got := make(chan *pawl.Lease, 1)
		go func() {
			l, err := m.Lock(t.Context())
			if err != nil {
				t.Error(err)
			}
			got <- l
		}()
		before()
		r.exec(t, "UPDATE ledger SET writes = writes + 1 WHERE name = ?", key)
		if err := first.Unlock(); err != nil {
			t.Fatal(err)
		}
		l := <-got
		if l.Fence() == first.Fence() {
			return l
		}
		_ = l.Unlock() // the turn was over
	}
	t.Fatal("the lock was never passed on")
	return nil
}

// A transaction that has looked before the lock was passed to its holder works on
// what was there before: the row of the lock has not changed since.
func TestATransactionThatReadBeforeThePassOnIsRefused(t *testing.T) {
	t.Parallel()
	onServers(t, func(t *testing.T, r *rig) {
		c := openClient(t, r.url)
		for _, level := range []sql.IsolationLevel{sql.LevelRepeatableRead, sql.LevelSerializable} {
			if level == sql.LevelSerializable && r.name != "postgres" {
				continue // it reads current rows, and a change of them waits
			}
			accepted := 0
			for range passRuns {
				key := r.ledger(t)
				var tx *sql.Tx
				l := r.passed(t, c, key, func() {
					if tx != nil {
						_ = tx.Rollback()
					}
					tx = r.begin(t, level)
					_ = r.count(t, tx, key)
				})
				err := sqllock.Guard(t.Context(), tx, l)
				if err == nil {
					accepted++
				} else if !errors.Is(err, driver.ErrUnsupported) {
					t.Error(err)
				}
				_ = tx.Rollback()
				_ = l.Unlock()
			}
			if accepted > 0 {
				t.Errorf("%s: of %d runs Guard accepted an old snapshot in %d", level, passRuns, accepted)
			}
		}
	})
}

// A lease that was passed on is guarded like any other if the guard comes first.
func TestALeaseThatWasPassedOnGuardsATransaction(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, r *rig) {
		c := openClient(t, r.url)
		for _, level := range []sql.IsolationLevel{sql.LevelDefault, sql.LevelReadCommitted, sql.LevelRepeatableRead, sql.LevelSerializable} {
			if r.name == "sqlite" && level != sql.LevelDefault {
				continue
			}
			key := r.ledger(t)
			l := r.passed(t, c, key, func() {})
			for range 2 { // also in two transactions at a time
				tx := r.begin(t, level)
				if err := sqllock.Guard(t.Context(), tx, l); err != nil {
					t.Errorf("%s: %v", level, err)
				}
				if r.name == "sqlite" {
					_ = tx.Rollback() // it has the whole file
				} else {
					defer tx.Rollback()
				}
			}
		}
	})
}

// SQLite permits a write only if no other transaction wrote since the snapshot.
func TestOnSQLiteATransactionThatReadBeforeThePassOnIsRefused(t *testing.T) {
	t.Parallel()
	r := rigOf(t, 3)
	c := openClient(t, r.url)
	for range passRuns {
		key := r.ledger(t)
		var tx *sql.Tx
		l := r.passed(t, c, key, func() {
			if tx != nil {
				_ = tx.Rollback()
			}
			tx = r.begin(t, sql.LevelDefault)
			_ = r.count(t, tx, key)
		})
		if err := sqllock.Guard(t.Context(), tx, l); err == nil {
			t.Error("Guard accepted an old snapshot")
		}
		_ = tx.Rollback()
		_ = l.Unlock()
	}
}

// Where the row is held by the guarded transaction, Unlock comes back in time all
// the same, and what it could not do is done after the commit.
func TestUnlockBeforeTheGuardedCommitTakesEffectAfterIt(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, r *rig) {
		c, rival := openClient(t, r.url, pawl.WithTTL(3*time.Second)), openClient(t, r.url)
		m := c.Mutex(nameOf(t))
		l, err := m.Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		tx := r.begin(t, sql.LevelDefault)
		if err := sqllock.Guard(t.Context(), tx, l); err != nil {
			t.Fatal(err)
		}
		watch, begun, left := stalltest.Start(), time.Now(), time.Until(l.Deadline())
		err = l.Unlock()
		if took, lost := time.Since(begun), watch.End(); took-lost > left+2*time.Second {
			t.Errorf("Unlock took %v, with %v left; the machine stood still for %v", took, left, lost)
		}
		if err != nil && !errors.Is(err, pawl.ErrUnknown) {
			t.Errorf("Unlock: %v", err)
		}
		if err == nil && r.name != "postgres" {
			t.Error("Unlock says that it gave back what the transaction has")
		}
		waits := make(chan error, 1)
		go func() {
			l, err := rival.Mutex(l.Name()).Lock(t.Context())
			if err == nil {
				err = l.Unlock()
			}
			waits <- err
		}()
		select {
		case err := <-waits:
			t.Errorf("another claim was granted the lock before the commit (%v)", err)
		case <-time.After(200 * time.Millisecond):
		}
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
		select {
		case err := <-waits:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(20 * time.Second):
			t.Error("no waiter was granted the lock after the commit")
		}
	})
}

// A hold was given back while a transaction that it guards is open, which keeps
// everybody out: one that only tries does not get the name, and leaves no trace.
func TestATryBehindAnOpenGuardLeavesNoTrace(t *testing.T) {
	r := pushed(t)
	permit := func(name string) driver.Claim {
		c := mutex(name)
		c.Limit = 2
		return c
	}
	for what, claims := range map[string]func(guarded string) []driver.Claim{
		"a mutex":       func(n string) []driver.Claim { return []driver.Claim{mutex(n)} },
		"a permit":      func(n string) []driver.Claim { return []driver.Claim{permit(n)} },
		"several names": func(n string) []driver.Claim { return []driver.Claim{mutex(n), mutex(n + "/free")} },
	} {
		t.Run(what, func(t *testing.T) {
			e, name := r.engine(t), nameOf(t)
			s, h := openSession(t, e, time.Minute), mutex(name)
			tx := r.begin(t, sql.LevelDefault)
			if err := sqllock.Guard(t.Context(), tx, &zombie{h, hold(t, s, h).Token}); err != nil {
				t.Fatal(err)
			}
			if err := s.Leave(t.Context(), h); err != nil {
				t.Fatal(err)
			}
			cs := claims(name)
			for i := range cs {
				cs[i] = tries(cs[i])
			}
			out, err := s.(driver.Multi).EnterAll(t.Context(), cs)
			if err != nil || out[0].Held {
				t.Fatalf("tried: %+v, %v", out, err)
			}
			if len(cs) == 1 {
				if st, err := s.Enter(t.Context(), tries(claims(name)[0])); err != nil || st.Held {
					t.Errorf("tried: %+v, %v", st, err)
				}
			}
			for _, c := range cs {
				if line, err := e.Line(t.Context(), c.Name); err != nil || len(line) > 0 {
					t.Errorf("%s: in line: %+v, %v", c.Name, line, err)
				}
			}
		})
	}
}
