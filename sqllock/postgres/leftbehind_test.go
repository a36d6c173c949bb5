package postgres

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/testserver"
	"github.com/pawl-go/pawl/sqllock"
)

// ownEngine is an engine on a pool of the user's whose connections were all checked
// before something is left behind on them.
func ownEngine(t *testing.T, store string, opts ...Option) (*Engine, *pgxpool.Pool) {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), store+"&pool_max_conns=2")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	e, err := New(pool, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	if err := e.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return e, pool
}

// What was acknowledged survives a crash of the server, whatever was left behind on the
// connection since the engine was opened: a grant, a beat that prolonged it, and a record.
func TestAGrantSurvivesACrashOnAConnectionLeftLazy(t *testing.T) {
	t.Parallel()
	serverPool(t)
	// The log is written by the commit that waits for it, and by nobody else.
	server := testserver.PostgreSQL(t, "-c", "wal_writer_delay=10s", "-c", "wal_writer_flush_after=100GB", "-c", "checkpoint_timeout=1h")
	for round, how := range []string{"SET synchronous_commit = off", "ALTER SYSTEM SET synchronous_commit = off"} {
		store := urlOf(server.Addr())
		e, pool := ownEngine(t, store)
		s, err := e.Open(t.Context(), driver.SessionOptions{ID: "s", TTL: 10 * time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		taken := func(name string, limit int) driver.Claim {
			return driver.Claim{ID: strings.Repeat(string('a'+rune(round)), 31) + name, Try: 1, Name: name + how, Need: 1, Limit: limit, Queue: true}
		}
		beaten := taken("b", 1)
		if st, err := s.Enter(t.Context(), beaten); err != nil || !st.Held {
			t.Fatal(st, err)
		}
		// The beats have connections of their own.
		if strings.HasPrefix(how, "SET") {
			leaveBehind(t, pool, 2, how)
			leaveBehind(t, e.store.beats.(*poolSource).pool, beatConns, how)
		} else {
			leaveBehind(t, pool, 1, how)
			leaveBehind(t, pool, 1, "SELECT pg_reload_conf()")
			awaitSetting(t, pool, "off")
			awaitSetting(t, e.store.beats.(*poolSource).pool, "off")
		}
		for what, do := range map[string]func() error{
			"a mutex":  func() error { _, err := s.Enter(t.Context(), taken("m", 1)); return err },
			"a permit": func() error { _, err := s.Enter(t.Context(), taken("p", 2)); return err },
			"a beat": func() error {
				time.Sleep(5 * time.Millisecond)
				return s.Beat(t.Context(), []driver.Claim{beaten}, make([]driver.Standing, 1))
			},
			"a record": func() error { _, err := e.Store(t.Context(), how, []byte("x"), 0, time.Hour); return err },
		} {
			before := writtenLog(t, pool)
			if err := do(); err != nil {
				t.Fatal(err)
			}
			if after := writtenLog(t, pool); after.flushed < after.inserted && after.flushed <= before.inserted {
				t.Errorf("%s, %s: acknowledged, and the log on disk ends at %d of %d", how, what, after.flushed, after.inserted)
			}
		}
		if round == 0 {
			leaveBehind(t, pool, 2, "RESET synchronous_commit")
		}
		_ = s.Close(context.WithoutCancel(t.Context()))
	}
}

// writtenLog is how far the server's log was inserted and flushed.
type logPosition struct{ inserted, flushed int64 }

func writtenLog(t *testing.T, pool *pgxpool.Pool) (at logPosition) {
	t.Helper()
	if err := pool.QueryRow(t.Context(), `SELECT pg_current_wal_insert_lsn() - '0/0', pg_current_wal_flush_lsn() - '0/0'`,
		pgx.QueryExecModeExec).Scan(&at.inserted, &at.flushed); err != nil {
		t.Fatal(err)
	}
	return at
}

func awaitSetting(t *testing.T, pool *pgxpool.Pool, value string) {
	t.Helper()
	for begun := time.Now(); ; time.Sleep(time.Millisecond) {
		var now string
		if err := pool.QueryRow(t.Context(), "SELECT current_setting('synchronous_commit')", pgx.QueryExecModeExec).Scan(&now); err != nil {
			t.Fatal(err)
		}
		if now == value {
			return
		}
		if time.Since(begun) > 30*time.Second {
			t.Fatalf("synchronous_commit is %s", now)
		}
	}
}

// A weaker level that others left behind before the engine's first call is not taken for
// what is configured: with it a standby would not have the grant.
func TestAWeakLevelLeftBehindBeforeTheFirstCallIsNotKept(t *testing.T) {
	t.Parallel()
	serverPool(t)
	for _, with := range []struct{ params, left, want string }{
		{"", "local", "on"}, {"", "off", "on"}, {"", "remote_apply", "remote_apply"},
		{"&synchronous_commit=local", "off", "local"}, {"&synchronous_commit=off", "local", "local"},
	} {
		pool, err := pgxpool.New(t.Context(), urlOf(shared.server.Addr())+"&pool_max_conns=2"+with.params)
		if err != nil {
			t.Fatal(err)
		}
		defer pool.Close()
		e, err := New(pool)
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		leaveBehind(t, pool, 2, "SET synchronous_commit = "+with.left)
		if read, err := e.store.settings(t.Context()); err != nil || read.commit != durable(with.want) {
			t.Errorf("%+v: %+v, %v", with, read, err)
		}
	}
}

// The grants go to the tables that were there when the engine was opened, whatever
// search_path was left behind on the connection, and so do guards.
func TestALockStaysInItsSchemaWhateverTheSearchPath(t *testing.T) {
	t.Parallel()
	pool := serverPool(t)
	const other = "other_path"
	if _, err := pool.Exec(t.Context(), "CREATE SCHEMA "+other); err != nil {
		t.Fatal(err)
	}
	if err := openStore(t, urlOf(shared.server.Addr())+"&search_path="+other).Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	held, err := openClient(t, urlOf(shared.server.Addr()), pawl.WithTTL(time.Minute)).Mutex(t.Name()).Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer held.Unlock()
	for _, path := range []string{other, "nowhere"} {
		e, own := ownEngine(t, urlOf(shared.server.Addr()))
		for _, p := range []*pgxpool.Pool{own, e.store.beats.(*poolSource).pool} {
			leaveBehind(t, p, 2, "SET search_path = "+path)
		}
		if l, err := pawl.New(e).Mutex(t.Name()).TryLock(t.Context()); !errors.Is(err, pawl.ErrHeld) {
			t.Errorf("search_path %s: %v, %v", path, l, err)
		}
		free, err := pawl.New(e).Mutex(t.Name() + path).Lock(t.Context())
		if err != nil {
			t.Fatalf("search_path %s: %v", path, err)
		}
		if err := pgx.BeginFunc(t.Context(), own, func(tx pgx.Tx) error { return sqllock.Guard(t.Context(), tx, free) }); err != nil {
			t.Errorf("search_path %s: %v", path, err)
		}
		if err := free.Unlock(); err != nil {
			t.Error(err)
		}
	}
}

// Another application sets synchronous_commit through the same pooler, which leaves it on
// the server's connection that pawl is given next.
func TestAGrantIsNotLazyBecauseOfAnotherUserOfThePooler(t *testing.T) {
	t.Parallel()
	serverPool(t)
	server := testserver.PostgreSQL(t, "-c", "wal_writer_delay=10s", "-c", "wal_writer_flush_after=100GB", "-c", "checkpoint_timeout=1h")
	e, direct := ownEngine(t, urlOf(server.Addr()))
	_ = e.Close() // it made the tables
	pooled := urlOf(testserver.PgBouncer(t, server, "transaction").Addr())
	s, err := openStore(t, pooled).Open(t.Context(), driver.SessionOptions{ID: "s", TTL: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	const rounds = 5
	lazy := 0
	for i := range rounds {
		other, err := pgx.Connect(t.Context(), pooled)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := other.Exec(t.Context(), "SET synchronous_commit = off", pgx.QueryExecModeSimpleProtocol); err != nil {
			t.Fatal(err)
		}
		_ = other.Close(t.Context())
		before := writtenLog(t, direct)
		c := driver.Claim{ID: strings.Repeat("a", 31) + string('a'+rune(i)), Try: 1, Name: string('a' + rune(i)), Need: 1, Limit: 1, Queue: true}
		if st, err := s.Enter(t.Context(), c); err != nil || !st.Held {
			t.Fatal(st, err)
		}
		if after := writtenLog(t, direct); after.flushed <= before.inserted {
			lazy++
		}
	}
	if lazy > 0 {
		t.Errorf("%d of %d grants were acknowledged before they were on disk", lazy, rounds)
	}
}
