package postgres

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
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
