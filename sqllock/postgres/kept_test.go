package postgres

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/sqllock/internal/sqlstore"
)

// openDB is a *sql.DB as a user has it.
func openDB(t testing.TB, conns int, opts ...stdlib.OptionOpenDB) *sql.DB {
	t.Helper()
	cfg, err := pgx.ParseConfig(urlOf(shared.server.Addr()))
	if err != nil {
		t.Fatal(err)
	}
	db := stdlib.OpenDB(*cfg, opts...)
	db.SetMaxOpenConns(conns)
	t.Cleanup(func() { db.Close() })
	return db
}

func engineOn(t testing.TB, db *sql.DB) *Engine {
	t.Helper()
	e, err := NewDB(db)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

// takeAll takes every connection that a pool has left.
func takeAll(t testing.TB, db *sql.DB) (release func()) {
	t.Helper()
	var all []*sql.Conn
	for {
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		c, err := db.Conn(ctx)
		cancel()
		if err != nil {
			break
		}
		all = append(all, c)
	}
	return func() {
		for _, c := range all {
			c.Close()
		}
	}
}

// The user's work takes all connections between the grant and the first beat, and
// again when beats have gone out.
func TestAPoolThatIsFullBeforeTheFirstBeatCostsNoLease(t *testing.T) {
	t.Parallel()
	serverPool(t)
	const ttl = 5 * time.Second
	for range 2 {
		t.Run("", func(t *testing.T) {
			t.Parallel()
			db := openDB(t, 3)
			c := pawl.New(engineOn(t, db), pawl.WithTTL(ttl))
			defer c.Close()
			l, err := c.Mutex(t.Name()).Lock(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			release := takeAll(t, db)
			select {
			case <-l.Context().Done():
				t.Errorf("lost while the pool was full: %v", l.Err())
			case <-time.After(ttl * 3 / 2):
			}
			release()
			if err := l.Unlock(); err != nil {
				t.Error(err)
			}
		})
	}
}

// The kept connection is stuck and the pool is full. The user's work gives one back.
func TestABeatTakesWhicheverConnectionIsFreeFirst(t *testing.T) {
	t.Parallel()
	serverPool(t)
	db := openDB(t, 2)
	kept := sqlstore.NewKeptConn(db)
	stuck, over := make(chan struct{}), make(chan struct{})
	use := func(do func()) error {
		return kept.With(t.Context(), func(*sql.Conn) (bool, error) { do(); return true, nil })
	}
	var calls sync.WaitGroup
	calls.Go(func() { _ = use(func() { close(stuck); <-over }) })
	<-stuck
	release := takeAll(t, db)
	done := make(chan error, 1)
	calls.Go(func() { done <- use(func() {}) })
	select {
	case err := <-done:
		t.Fatalf("a call without a connection: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	release()
	if err := <-done; err != nil {
		t.Error(err)
	}
	release = takeAll(t, db)
	calls.Go(func() { done <- use(func() {}) })
	close(over) // now it is the kept connection that is free
	if err := <-done; err != nil {
		t.Error(err)
	}
	release()
	calls.Wait()
	kept.Close()
	// A connection that came too late to be used is given back by whoever asked for it.
	for began := time.Now(); db.Stats().InUse != 0; time.Sleep(time.Millisecond) {
		if time.Since(began) > 30*time.Second {
			t.Fatalf("%d connections are still in use", db.Stats().InUse)
		}
	}
}

// Such a pool is refused by Open; an operator's program may evict with it.
func TestAnEvictionByAPoolOfOneConnectionWakesTheNextWaiter(t *testing.T) {
	t.Parallel()
	serverPool(t)
	one := engineOn(t, openDB(t, 1))
	if _, err := one.Open(t.Context(), driver.SessionOptions{ID: "s", TTL: time.Minute}); !errors.Is(err, driver.ErrUnsupported) {
		t.Errorf("Open: %v, not ErrUnsupported", err)
	}
	holder := pawl.New(engineOn(t, openDB(t, 4)), pawl.WithTTL(time.Minute))
	waiter := pawl.New(engineOn(t, openDB(t, 4)), pawl.WithTTL(time.Minute))
	defer holder.Close()
	defer waiter.Close()
	if _, err := holder.Mutex(t.Name()).Lock(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := make(chan error, 1)
	go func() { _, err := waiter.Mutex(t.Name()).Lock(t.Context()); got <- err }()
	var line []driver.Entry
	for len(line) < 2 {
		time.Sleep(5 * time.Millisecond)
		var err error
		if line, err = holder.Line(t.Context(), t.Name()); err != nil {
			t.Fatal(err)
		}
	}
	if err := one.Evict(t.Context(), line[0]); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-got:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(15 * time.Second): // a beat, which would find out too, comes after 20
		t.Error("the next waiter was not told")
	}
}

// The tables are in a schema that only connections of the user's pool look into, and
// others of the same names, with nothing in them, are where all connections look.
func TestBeatsRunOnConnectionsThatTheUsersHooksHaveMade(t *testing.T) {
	t.Parallel()
	pool := serverPool(t)
	const ttl = 3 * time.Second
	const schema = "hooked"
	if _, err := pool.Exec(t.Context(), "CREATE SCHEMA "+schema); err != nil {
		t.Fatal(err)
	}
	hook := func(ctx context.Context, c *pgx.Conn) error {
		_, err := c.Exec(ctx, "SET search_path = "+schema)
		return err
	}
	cfg, err := pgxpool.ParseConfig(urlOf(shared.server.Addr()))
	if err != nil {
		t.Fatal(err)
	}
	cfg.AfterConnect = hook
	hooked, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(hooked.Close)
	fromPool := stdlib.OpenDBFromPool(hooked)
	t.Cleanup(func() { fromPool.Close() })
	onPool, err := New(hooked)
	if err != nil {
		t.Fatal(err)
	}
	if err := onPool.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	for name, e := range map[string]*Engine{
		"pgx's pool":          onPool,
		"a *sql.DB":           engineOn(t, openDB(t, 5, stdlib.OptionAfterConnect(hook))),
		"a *sql.DB on a pool": engineOn(t, fromPool),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := pawl.New(e, pawl.WithTTL(ttl))
			defer c.Close()
			l, err := c.Mutex(t.Name()).Lock(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			select {
			case <-l.Context().Done():
				t.Errorf("lost: %v", l.Err())
			case <-time.After(ttl * 3 / 2):
			}
			if err := l.Unlock(); err != nil {
				t.Error(err)
			}
		})
	}
	t.Cleanup(func() { onPool.Close() })
}

func TestAPoolOfOneConnectionIsRefused(t *testing.T) {
	t.Parallel()
	serverPool(t)
	e := engineOn(t, openDB(t, 1))
	if _, err := e.Open(t.Context(), driver.SessionOptions{ID: "x", TTL: time.Minute}); !errors.Is(err, driver.ErrUnsupported) {
		t.Errorf("it was taken: %v", err)
	}
}

// A notice has less time than the Leave on whose connection it goes. Where it is called
// off, pgx may leave a timeout behind there, so nobody uses that connection again.
func TestAConnectionIsNotUsedAgainAfterACancelledCall(t *testing.T) {
	t.Parallel()
	serverPool(t)
	s := openStore(t, urlOf(shared.server.Addr())).store
	err := s.oneConn(t.Context(), func(ctx context.Context) {
		var first *pgx.Conn
		brief, cancel := context.WithCancel(ctx)
		err := s.with(brief, s.from.with, func(c *pgx.Conn) error {
			first = c
			cancel()
			return nil
		})
		if err != nil {
			t.Error(err)
		}
		err = s.with(ctx, s.from.with, func(c *pgx.Conn) error {
			if c == first {
				t.Error("it is used again")
			}
			return c.Ping(ctx)
		})
		if err != nil {
			t.Error(err)
		}
	})
	if err != nil {
		t.Error(err)
	}
}
