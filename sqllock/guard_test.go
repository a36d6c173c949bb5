package sqllock_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/sqllock"
)

// A zombie is a lease whose holder has not noticed anything: the process was
// stopped, and goes on in the middle of its work.
type zombie struct {
	c     driver.Claim
	fence uint64
}

func (z *zombie) Name() string  { return z.c.Name }
func (z *zombie) ID() string    { return z.c.ID }
func (z *zombie) Fence() uint64 { return z.fence }
func (z *zombie) Err() error    { return nil }

// ledger is a row of the user's own that counts writes which came after one with
// a larger token.
func (r *rig) ledger(t testing.TB) (key string) {
	t.Helper()
	r.table(t, "ledger (name VARCHAR(100) PRIMARY KEY, token BIGINT, stale BIGINT, writes BIGINT)")
	key = newID()
	r.exec(t, "INSERT INTO ledger (name, token, stale, writes) VALUES (?, 0, 0, 0)", key)
	return key
}

const entry = `UPDATE ledger SET stale = stale + CASE WHEN token > ? THEN 1 ELSE 0 END,
	token = CASE WHEN token > ? THEN token ELSE ? END, writes = writes + 1 WHERE name = ?`

// write makes an entry in a transaction that is guarded. It reports whether the
// entry was committed.
func (r *rig) write(ctx context.Context, key string, g driver.Grant, level sql.IsolationLevel) (bool, error) {
	tx, err := r.db.BeginTx(ctx, &sql.TxOptions{Isolation: level})
	if err != nil {
		return false, err
	}
	defer tx.Rollback()
	if err := sqllock.Guard(ctx, tx, g); err != nil {
		return false, err
	}
	// So that expiry, and what a rival then does, falls into some: once an entry is
	// made, nobody else makes one before the commit.
	if rand.IntN(4) > 0 {
		time.Sleep(rand.N(60 * time.Millisecond))
	}
	token := int64(g.Fence())
	if _, err := tx.ExecContext(ctx, r.marked(entry), token, token, token, key); err != nil {
		return false, err
	}
	return true, tx.Commit()
}

// Without the race detector there are more, see the test of the same name; and
// many more in the soak test.
func TestAZombieNeverCommits(t *testing.T) {
	everywhere(t, func(t *testing.T, r *rig) { zombies(t, r, 100) })
}

func TestSoakAZombieNeverCommits(t *testing.T) {
	d := soakTime(t)
	everywhere(t, func(t *testing.T, r *rig) {
		for begun := time.Now(); time.Since(begun) < d && !t.Failed(); {
			zombies(t, r, 1000)
		}
	})
}

// zombies has holders write at about their expiry.
func zombies(t *testing.T, r *rig, tries int) {
	const names = 5
	ea, eb := r.engine(t), r.engine(t)
	var committed, refused, stale, writes atomic.Int64
	var wg sync.WaitGroup
	for range names { // at once: most of a try is waiting for an expiry
		key := r.ledger(t)
		wg.Go(func() {
			holdToExpiry(t, r, ea, eb, key, tries/names, &committed, &refused)
			stale.Add(r.number(t, "SELECT stale FROM ledger WHERE name = ?", key))
			writes.Add(r.number(t, "SELECT writes FROM ledger WHERE name = ?", key))
		})
	}
	wg.Wait()
	if n := stale.Load(); n != 0 {
		t.Errorf("%d stale commits in %d tries", n, tries)
	}
	t.Logf("%d tries: the first holder committed %d times, was refused %d times; %d entries in all",
		tries, committed.Load(), refused.Load(), writes.Load())
	if committed.Load() == 0 || refused.Load() == 0 {
		t.Errorf("committed %d times and refused %d times: one of the two was not tried", committed.Load(), refused.Load())
	}
}

// holdToExpiry has a holder write at about its expiry, beside a rival that takes over.
func holdToExpiry(t *testing.T, r *rig, ea, eb driver.Engine, key string, rounds int, committed, refused *atomic.Int64) {
	const ttl = 40 * time.Millisecond
	short, long, b := openSession(t, ea, ttl), openSession(t, ea, time.Minute), openSession(t, eb, time.Minute)
	name := nameOf(t)
	for round := range rounds {
		a, inTime := short, round%4 == 0 // some are, however busy the machine is
		if inTime {
			a = long
		}
		ca, cb := mutex(name), mutex(name)
		stA, err := enterUntil(t.Context(), a, tries(ca))
		if err != nil {
			t.Error(err)
			return
		}
		rival := make(chan error, 1)
		go func() { // ends with its write
			st, err := b.Enter(t.Context(), cb)
			for err == nil && !st.Held {
				st, err = b.Await(t.Context(), cb, st)
			}
			if err == nil {
				_, err = r.write(t.Context(), key, &zombie{cb, st.Token}, sql.LevelDefault)
			}
			rival <- err
		}()
		if !inTime {
			time.Sleep(ttl/2 + rand.N(ttl))
		}
		if ok, err := r.write(t.Context(), key, &zombie{ca, stA.Token}, sql.LevelDefault); ok && err == nil {
			committed.Add(1)
		} else if errors.Is(err, driver.ErrGone) {
			refused.Add(1)
		}
		if inTime {
			_ = a.Leave(t.Context(), ca) // the rival would wait a minute
		}
		if err := <-rival; err != nil {
			t.Errorf("the rival: %v", err)
		}
		_ = a.Leave(t.Context(), ca)
		_ = b.Leave(t.Context(), cb)
	}
}

// enterUntil tries until held.
func enterUntil(ctx context.Context, s driver.Session, c driver.Claim) (driver.Standing, error) {
	for ; ; c.Try++ {
		st, err := s.Enter(ctx, c)
		if err != nil || st.Held {
			return st, err
		}
		time.Sleep(rand.N(time.Millisecond))
	}
}

func TestALeaseThatWasPassedOnIsNotGuardedFor(t *testing.T) {
	everywhere(t, func(t *testing.T, r *rig) {
		c := openClient(t, r.url)
		m := c.Mutex(nameOf(t))
		key := r.ledger(t)
		for range 20 {
			first, err := m.Lock(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			got := make(chan *pawl.Lease)
			go func() {
				l, err := m.Lock(t.Context())
				if err != nil {
					t.Error(err)
				}
				got <- l
			}()
			time.Sleep(time.Millisecond)
			if err := first.Unlock(); err != nil {
				t.Fatal(err)
			}
			second := <-got
			if ok, err := r.write(t.Context(), key, first, sql.LevelDefault); ok || !errors.Is(err, pawl.ErrReleased) {
				t.Fatalf("the first holder's guard: %v, %v", ok, err)
			}
			if ok, err := r.write(t.Context(), key, second, sql.LevelDefault); !ok || err != nil {
				t.Fatalf("the second holder's guard: %v, %v", ok, err)
			}
			if err := second.Unlock(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// guarded holds a claim for a TTL and opens a transaction that is guarded by it. If
// the machine stood still until the claim had expired, it is done again.
func (r *rig) guarded(t *testing.T, ttl time.Duration, claim func() driver.Claim) (*sql.Tx, *zombie) {
	t.Helper()
	s := openSession(t, r.engine(t), ttl)
	for try := 0; ; try++ {
		c, begun := claim(), time.Now()
		z := &zombie{c, hold(t, s, c).Token}
		tx, err := r.db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = tx.Rollback() })
		if err = sqllock.Guard(t.Context(), tx, z); err == nil {
			return tx, z
		}
		if try == 10 || !errors.Is(err, driver.ErrGone) || time.Since(begun) < ttl {
			t.Fatal(err)
		}
		_ = tx.Rollback()
	}
}

func TestATakeoverWaitsForTheGuardedCommit(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, r *rig) {
		const ttl = 500 * time.Millisecond
		b := openSession(t, r.engine(t), 5*time.Second)
		tx, guarded := r.guarded(t, ttl, func() driver.Claim { return mutex(nameOf(t)) })
		cb := mutex(guarded.Name())
		held := make(chan error, 1)
		go func() {
			for {
				_, err := enterUntil(t.Context(), b, tries(cb))
				if errors.Is(err, driver.ErrUnreachable) && t.Context().Err() == nil {
					continue // the whole file, or the row, is waited for
				}
				held <- err
				return
			}
		}()
		select {
		case err := <-held:
			t.Fatalf("the rival was granted while the guarded transaction was open (%v)", err)
		case <-time.After(3 * ttl):
		}
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
		select {
		case err := <-held:
			if err != nil {
				t.Fatal(err)
			}
		case <-time.After(10 * time.Second):
			t.Fatal("the rival was not granted after the commit")
		}
	})
}

// TestAGuardCostsNoOtherLockItsRenewal keeps a guard open until all other locks were
// renewed twice. On SQLite a transaction that writes has the whole file.
func TestAGuardCostsNoOtherLockItsRenewal(t *testing.T) {
	t.Parallel()
	onServers(t, func(t *testing.T, r *rig) {
		const ttl = 10 * time.Second
		c := openClient(t, r.url, pawl.WithTTL(ttl))
		name := nameOf(t)
		leases := make([]*pawl.Lease, 100)
		for i := range leases {
			l, err := c.Mutex(fmt.Sprintf("%s/%03d", name, i)).Lock(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			leases[i] = l
		}
		guarded, err := c.Mutex(name + "/050x").Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		tx, err := r.db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback()
		if err := sqllock.Guard(t.Context(), tx, guarded); err != nil {
			t.Fatal(err)
		}
		// A beat comes every third of the TTL: one was sent after so long.
		renewed := time.Now().Add(ttl + ttl/3)
		for i, l := range leases {
			for l.Err() == nil && l.Deadline().Before(renewed) {
				time.Sleep(10 * time.Millisecond)
			}
			if err := l.Err(); err != nil {
				t.Errorf("lease %d of another name: %v", i, err)
			}
		}
		for i, l := range leases {
			if err := l.Unlock(); err != nil {
				t.Errorf("lease %d of another name: %v", i, err)
			}
		}
		if err := guarded.Err(); r.name == "postgres" && err != nil {
			t.Errorf("the guarded lease itself: %v; beats pass guards here", err)
		}
		if err := tx.Commit(); err != nil {
			t.Errorf("commit: %v", err)
		}
	})
}

// TestGuardsOrderUnderEveryIsolationLevel: under READ COMMITTED it may come at
// any place; under stricter ones a transaction that looked before the lease was
// granted is refused, and one that guards first is not.
func TestGuardsOrderUnderEveryIsolationLevel(t *testing.T) {
	t.Parallel()
	onServers(t, func(t *testing.T, r *rig) {
		for _, level := range []sql.IsolationLevel{sql.LevelReadCommitted, sql.LevelRepeatableRead, sql.LevelSerializable} {
			t.Run(level.String(), func(t *testing.T) {
				c := openClient(t, r.url)
				m := c.Mutex(nameOf(t))
				key := r.ledger(t)
				if l, err := m.Lock(t.Context()); err != nil {
					t.Fatal(err)
				} else if ok, err := r.write(t.Context(), key, l, level); !ok || err != nil {
					t.Errorf("guard first: %v, %v", ok, err)
				} else if err := l.Unlock(); err != nil {
					t.Fatal(err)
				}
				tx, err := r.db.BeginTx(t.Context(), &sql.TxOptions{Isolation: level})
				if err != nil {
					t.Fatal(err)
				}
				defer tx.Rollback()
				var n int64
				// A locking read of SERIALIZABLE on MySQL sees the present anyway, and
				// is no view: the ledger is looked at, and with it the view is made.
				if err := tx.QueryRowContext(t.Context(), r.marked("SELECT writes FROM ledger WHERE name = ?"), key).Scan(&n); err != nil {
					t.Fatal(err)
				}
				l, err := m.Lock(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				err = sqllock.Guard(t.Context(), tx, l)
				_ = tx.Rollback()
				_ = l.Unlock()
				late := level == sql.LevelRepeatableRead || level == sql.LevelSerializable && r.name == "postgres"
				if late && !errors.Is(err, driver.ErrUnsupported) {
					t.Errorf("a guard in a transaction that looked before the lease was granted: %v", err)
				}
				if !late && err != nil {
					t.Errorf("guard last: %v", err)
				}
			})
		}
	})
}

func TestGuardTakesPGXTransactionsAndNothingElse(t *testing.T) {
	r := rigOf(t, 0)
	pool, err := pgxpool.New(t.Context(), r.url)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	c := openClient(t, r.url)
	l, err := c.Mutex(nameOf(t)).Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer l.Unlock()
	err = pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error { return sqllock.Guard(t.Context(), tx, l) })
	if err != nil {
		t.Error(err)
	}
	for _, wrong := range []any{r.db, pool, nil, 7} {
		if err := sqllock.Guard(t.Context(), wrong, l); !errors.Is(err, driver.ErrUnsupported) {
			t.Errorf("%T: %v", wrong, err)
		}
	}
	other := openClient(t, "mem:")
	m, err := other.Mutex("m").Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := sqllock.Guard(t.Context(), nil, m); !errors.Is(err, driver.ErrUnsupported) {
		t.Errorf("a lease of another engine: %v", err)
	}
}

// A lease of several names is guarded for all of them: it is refused if any was
// broken, and none can be taken over before the commit.
func TestALeaseOfSeveralNamesIsGuardedForAll(t *testing.T) {
	t.Parallel()
	onServers(t, func(t *testing.T, r *rig) {
		c, rival := openClient(t, r.url), openClient(t, r.url)
		base := nameOf(t)
		names := []string{base + "/1", base + "/2", base + "/3"}
		l, err := c.LockAll(t.Context(), names)
		if err != nil {
			t.Fatal(err)
		}
		tx, err := r.db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback()
		if err := sqllock.Guard(t.Context(), tx, l); err != nil {
			t.Fatal(err)
		}
		evicted := make(chan error, 1)
		go func() {
			for x, err := range rival.List(t.Context(), names[1]) {
				if err == nil {
					err = rival.Evict(t.Context(), x)
				}
				evicted <- err
			}
		}()
		select {
		case err := <-evicted:
			t.Errorf("the second name was broken while the guarded transaction was open (%v)", err)
		case <-time.After(300 * time.Millisecond):
		}
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
		if err := <-evicted; err != nil {
			t.Fatal(err)
		}
		parts := l.Grants()
		whole := several{&zombie{c: driver.Claim{Name: parts[0].Name(), ID: parts[0].ID()}, fence: parts[0].Fence()}, nil}
		for _, p := range parts { // as one that has not noticed
			whole.parts = append(whole.parts, &zombie{c: driver.Claim{Name: p.Name(), ID: p.ID()}, fence: p.Fence()})
		}
		late, err := r.db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer late.Rollback()
		if err := sqllock.Guard(t.Context(), late, whole); err == nil {
			t.Error("guarded though one of its names was broken")
		}
		_ = late.Rollback() // it has the first name's row
		_ = l.Unlock()
	})
}

// several is a lease of several names whose holder has not noticed anything.
type several struct {
	*zombie
	parts []driver.Grant
}

func (s several) Grants() []driver.Grant { return s.parts }

func TestReadersAreGuardedToo(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, r *rig) {
		const ttl = 500 * time.Millisecond
		b := openSession(t, r.engine(t), 5*time.Second)
		tx, reader := r.guarded(t, ttl, func() driver.Claim {
			c := mutex(nameOf(t))
			c.Limit = driver.All
			return c
		})
		ctx, cancel := context.WithTimeout(t.Context(), 3*ttl)
		defer cancel()
		writer := tries(mutex(reader.Name()))
		writer.Need, writer.Limit = driver.All, driver.All
		if st, err := enterUntil(ctx, b, writer); err == nil {
			t.Fatalf("a writer is granted while an expired reader's guard is open: %+v", st)
		}
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
		writer = tries(mutex(reader.Name()))
		writer.Need, writer.Limit = driver.All, driver.All
		if _, err := enterUntil(t.Context(), b, writer); err != nil {
			t.Fatal(err)
		}
		tx2, err := r.db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer tx2.Rollback()
		if err := sqllock.Guard(t.Context(), tx2, reader); !errors.Is(err, driver.ErrGone) {
			t.Errorf("the guard of a reader whose time is over: %v", err)
		}
	})
}

// Its token is the one it will hold with.
func TestAClaimThatWaitsIsNotGuardedFor(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, r *rig) {
		own, prefix := r.tables(t)
		s := openSession(t, own.engine(t), time.Minute)
		writer, reader := mutex("m"), mutex("m")
		writer.Need, writer.Limit, reader.Limit = driver.All, driver.All, driver.All
		hold(t, s, writer)
		if st := enter(t, s, reader); st.Held {
			t.Fatalf("a reader beside a writer: %+v", st)
		}
		token := own.number(t, "SELECT token FROM "+prefix+"claim WHERE id = ?", reader.ID)
		guard := func() error {
			tx, err := own.db.BeginTx(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer tx.Rollback()
			return sqllock.Guard(t.Context(), tx, &zombie{reader, uint64(token)})
		}
		if err := guard(); !errors.Is(err, driver.ErrGone) {
			t.Errorf("a guard of one that waits: %v", err)
		}
		if err := s.Leave(t.Context(), writer); err != nil {
			t.Fatal(err)
		}
		take(t, s, reader)
		if err := guard(); err != nil {
			t.Errorf("a guard of a claim that was granted: %v", err)
		}
	})
}

// A claim that came again holds with another token. What was held before has ended.
func TestAnEarlierHoldOfTheSameClaimIsNotGuardedFor(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, r *rig) {
		s := openSession(t, r.engine(t), time.Minute)
		for what, size := range map[string]int{"a mutex": 1, "a reader": driver.All} {
			c := mutex(nameOf(t))
			c.Limit = size
			tokens := []uint64{hold(t, s, c).Token}
			if err := s.Leave(t.Context(), c); err != nil {
				t.Fatal(err)
			}
			c.Try++
			tokens = append(tokens, hold(t, s, c).Token)
			for try, token := range tokens {
				tx, err := r.db.BeginTx(t.Context(), nil)
				if err != nil {
					t.Fatal(err)
				}
				err = sqllock.Guard(t.Context(), tx, &zombie{c, token})
				if (try == 1) != (err == nil) || err != nil && !errors.Is(err, driver.ErrGone) {
					t.Errorf("%s, try %d: %v", what, try+1, err)
				}
				_ = tx.Rollback()
			}
		}
	})
}
