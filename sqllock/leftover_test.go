package sqllock_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
)

// dsnParams are those of the pools that a user may give to an engine.
var dsnParams = map[string]string{"one by one": "", "several statements at once": "?multiStatements=true"}

// onPools runs a test on pools as users have them, each with an engine.
func onPools(t *testing.T, test func(t *testing.T, r *rig, db *sql.DB, e driver.Engine)) {
	onServers(t, func(t *testing.T, r *rig) {
		for way, params := range dsnParams {
			if r.name == "postgres" && params != "" {
				continue
			}
			t.Run(way, func(t *testing.T) {
				t.Parallel()
				db, err := sql.Open(r.driver, r.dsn+params)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { db.Close() })
				test(t, r, db, r.engineOn(t, db))
			})
		}
	})
}

// idle returns all connections of a pool that nobody uses.
func idle(t *testing.T, db *sql.DB) (all []*sql.Conn) {
	t.Helper()
	for range db.Stats().Idle {
		c, err := db.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, c)
	}
	return all
}

// leave has statements run on connections and returns these to the pool.
func leave(t *testing.T, conns []*sql.Conn, statements ...string) {
	t.Helper()
	for _, c := range conns {
		for _, s := range statements {
			if _, err := c.ExecContext(t.Context(), s); err != nil {
				t.Fatalf("%s: %v", s, err)
			}
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// An application leaves a transaction open on connections of its pool, with work of its
// own, and ends it later. A lock that was taken in between is not undone with it, and the
// work is what the application makes of it.
func TestALockIsNotPartOfATransactionThatWasLeftOpen(t *testing.T) {
	t.Parallel()
	onPools(t, func(t *testing.T, r *rig, db *sql.DB, e driver.Engine) {
		c := pawl.New(e, pawl.WithTTL(time.Minute))
		defer c.Close()
		r.table(t, "left_work (id VARCHAR(40) PRIMARY KEY)")
		peer := openClient(t, r.url, pawl.WithTTL(time.Minute))
		begins := []string{"BEGIN"}
		if r.driver == "mysql" {
			begins = append(begins, "SET autocommit = 0")
		}
		for _, begin := range begins {
			for _, end := range []string{"ROLLBACK", "COMMIT"} {
				warm, err := c.Mutex(nameOf(t)).Lock(t.Context()) // the engine has its own connection by then
				if err != nil {
					t.Fatal(err)
				}
				if err := warm.Unlock(); err != nil {
					t.Fatal(err)
				}
				id, name := newID(), nameOf(t)
				left := idle(t, db)
				if len(left) == 0 {
					t.Fatal("no connection is idle")
				}
				leave(t, left[1:])
				leave(t, left[:1], begin, "INSERT INTO left_work VALUES ('"+id+"')") // the next that the pool gives
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
				lease, err := c.Mutex(name).Lock(ctx)
				cancel()
				if err != nil {
					t.Errorf("%s: not taken: %v", begin, err)
				}
				all := idle(t, db)
				if r.driver == "mysql" {
					leave(t, all, end, "SET autocommit = 1")
				} else {
					leave(t, all, end)
				}
				if lease == nil {
					continue
				}
				if other, err := peer.Mutex(name).TryLock(t.Context()); !errors.Is(err, pawl.ErrHeld) {
					t.Errorf("%s, then %s: both hold: %v, %v", begin, end, other, err)
				}
				want := int64(0)
				if end == "COMMIT" {
					want = 1
				}
				// pgx closes a connection that was left so, and with it the work ends.
				if got := r.number(t, "SELECT count(*) FROM left_work WHERE id = ?", id); got != want && r.name != "postgres" {
					t.Errorf("%s, then %s: %d rows of the application's own", begin, end, got)
				}
				if err := lease.Unlock(); err != nil {
					t.Errorf("%s, then %s: %v", begin, end, err)
				}
			}
		}
	})
}

// An application leaves connections in another database, which has tables of the same
// names.
func TestALockDoesNotFollowAConnectionIntoAnotherDatabase(t *testing.T) {
	t.Parallel()
	onPools(t, func(t *testing.T, r *rig, db *sql.DB, e driver.Engine) {
		if r.driver != "mysql" {
			return // a connection stays in its database; what search_path does is tested there
		}
		c := pawl.New(e, pawl.WithTTL(time.Minute))
		defer c.Close()
		other := "other_" + newID()[:8]
		r.exec(t, "CREATE DATABASE "+other)
		for _, table := range []string{"meta", "head", "claim", "record"} {
			r.exec(t, fmt.Sprintf("CREATE TABLE %s.pawl_%s LIKE pawl.pawl_%[2]s", other, table))
		}
		peer := openClient(t, r.url, pawl.WithTTL(time.Minute))
		warm, err := c.Mutex(nameOf(t)).Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		leave(t, idle(t, db), "USE "+other)
		for kind, lock := range map[string]func(name string) (*pawl.Lease, error){
			"exclusive": func(name string) (*pawl.Lease, error) { return c.Mutex(name).Lock(t.Context()) },
			"counted":   func(name string) (*pawl.Lease, error) { return c.Semaphore(name, 1).Acquire(t.Context(), 1) },
			"several":   func(name string) (*pawl.Lease, error) { return c.LockAll(t.Context(), []string{name, name + "2"}) },
		} {
			name := nameOf(t)
			l, err := lock(name)
			if err != nil {
				t.Fatal(kind, err)
			}
			if again, err := peer.Mutex(name).TryLock(t.Context()); !errors.Is(err, pawl.ErrHeld) && !errors.Is(err, pawl.ErrLimit) {
				t.Errorf("%s: both hold: %v, %v", kind, again, err)
			}
			if err := l.Confirm(t.Context()); err != nil {
				t.Error(kind, err)
			}
			if err := l.Unlock(); err != nil {
				t.Error(kind, err)
			}
		}
		if err := warm.Unlock(); err != nil {
			t.Error(err)
		}
		if n := r.number(t, "SELECT (SELECT count(*) FROM "+other+".pawl_head) + (SELECT count(*) FROM "+other+".pawl_claim)"); n != 0 {
			t.Errorf("%d rows in the other database", n)
		}
	})
}

// Callers give up while a transaction has the row of their name. Their statements do not
// stay in the server, each with a connection beyond the pool's limit.
func TestCallersThatGiveUpLeaveNoConnectionBehind(t *testing.T) {
	t.Parallel()
	onPools(t, func(t *testing.T, r *rig, db *sql.DB, e driver.Engine) {
		const limit, rounds = 10, 10
		db.SetMaxOpenConns(limit)
		s, name := openSession(t, e, time.Minute), nameOf(t)
		for range 2 { // the row is there, and is known
			c := mutex(name)
			hold(t, s, c)
			if err := s.Leave(t.Context(), c); err != nil {
				t.Fatal(err)
			}
		}
		tx, err := r.db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback()
		if _, err := tx.ExecContext(t.Context(), r.marked("SELECT 1 FROM pawl_head WHERE name = ? FOR UPDATE"), name); err != nil {
			t.Fatal(err)
		}
		count := "SELECT count(*) FROM information_schema.processlist WHERE info LIKE ? AND info LIKE '%pawl_head%' AND id <> connection_id()"
		if r.name == "postgres" {
			count = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%pawl_head%' AND query <> ?"
		}
		most := int64(0)
		for range rounds {
			var wg sync.WaitGroup
			for range limit {
				wg.Go(func() {
					ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
					defer cancel()
					if st, err := s.Enter(ctx, mutex(name)); err == nil {
						t.Errorf("answered: %+v", st)
					}
				})
			}
			wg.Wait()
			most = max(most, r.number(t, count, fmt.Sprintf("%%%x%%", name)))
		}
		t.Logf("up to %d statements of %d callers waited when the callers had given up", most, rounds*limit)
		if most > 3*limit {
			t.Errorf("%d statements wait in the server, and the pool has %d connections", most, limit)
		}
	})
}
