package postgres

import (
	"context"
	"database/sql"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/drivertest"
	"github.com/pawl-go/pawl/internal/faultproxy"
	"github.com/pawl-go/pawl/internal/testserver"
)

func openStore(t testing.TB, store string) *Engine {
	t.Helper()
	u, err := url.Parse(store)
	if err != nil {
		t.Fatal(err)
	}
	e, err := openURL(t.Context(), u)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e.(*Engine)
}

func openClient(t testing.TB, store string, opts ...pawl.Option) *pawl.Client {
	t.Helper()
	c, err := pawl.Open(t.Context(), store, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// contend has clients, each with an engine of its own, take one name in turns.
func contend(t *testing.T, store string, clients, rounds int) (again int64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute) // so that it says what hangs
	defer cancel()
	var wg sync.WaitGroup
	inside := make(chan struct{}, 1)
	var engines []*Engine
	for range clients {
		e := openStore(t, store)
		engines = append(engines, e)
		c := pawl.New(e)
		t.Cleanup(func() { c.Close() })
		wg.Go(func() {
			for range rounds {
				l, err := c.Mutex(t.Name()).Lock(ctx)
				if err != nil {
					t.Error(err)
					return
				}
				select {
				case inside <- struct{}{}:
					<-inside
				default:
					t.Error("two hold it")
				}
				if err := l.Unlock(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	for _, e := range engines {
		again += e.Retried()
	}
	return again
}

func TestLawsOnADatabaseSQLPool(t *testing.T) {
	t.Parallel()
	serverPool(t)
	db := stdlib.OpenDBFromPool(shared.pool)
	t.Cleanup(func() { db.Close() })
	open := func(t *testing.T) driver.Engine {
		e, err := NewDB(db)
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	drivertest.Run(t, drivertest.Harness{
		Open: open,
		Peer: func(t *testing.T, _ driver.Engine) driver.Engine { return open(t) },
		Stays: func(stack string) bool {
			return strings.Contains(stack, "pgxpool.(*Pool).backgroundHealthCheck") || strings.Contains(stack, "database/sql.(*DB).connectionOpener")
		},
		MinTTL: 750 * time.Millisecond,
	})
}

// Whatever isolation level the connections have by default, batches run at
// their own, so that the server has nothing to refuse.
func TestBatchesHaveTheirOwnIsolationLevel(t *testing.T) {
	t.Parallel()
	serverPool(t)
	for _, level := range []string{"repeatable read", "serializable"} {
		t.Run(level, func(t *testing.T) {
			store := urlOf(shared.server.Addr()) + "&options=" + url.QueryEscape("-c default_transaction_isolation="+strings.ReplaceAll(level, " ", "\\ "))
			if n := contend(t, store, 4, 20); n != 0 {
				t.Errorf("%d batches were refused", n)
			}
		})
	}
}

// A grant must not be forgotten by a server that crashed, though its commits are
// lazy by default.
func TestAGrantIsWrittenDownThoughCommitsAreLazy(t *testing.T) {
	t.Parallel()
	serverPool(t)
	e := openStore(t, urlOf(shared.server.Addr())+"&options="+url.QueryEscape("-c synchronous_commit=off"))
	read, err := e.store.settings(t.Context())
	if err != nil || read.commit != durable("on") {
		t.Fatalf("%+v, %v", read, err)
	}
	l, err := pawl.New(e).Mutex(t.Name()).Lock(t.Context())
	if err == nil {
		err = l.Unlock()
	}
	if err != nil {
		t.Fatal(err)
	}
}

// The connection that listens is killed; its waiters get their turn all the same.
func TestAKilledListenerCostsNoTurn(t *testing.T) {
	t.Parallel()
	pool := serverPool(t)
	a, b := openClient(t, urlOf(shared.server.Addr()), pawl.WithTTL(time.Minute)), openClient(t, urlOf(shared.server.Addr()), pawl.WithTTL(time.Minute))
	for range 5 {
		first, err := a.Mutex(t.Name()).Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		got := make(chan error, 1)
		go func() {
			l, err := b.Mutex(t.Name()).Lock(t.Context())
			if err == nil {
				err = l.Unlock()
			}
			got <- err
		}()
		time.Sleep(20 * time.Millisecond)
		if _, err := pool.Exec(t.Context(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN pawl_turn%'`); err != nil {
			t.Fatal(err)
		}
		if err := first.Unlock(); err != nil {
			t.Fatal(err)
		}
		select {
		case err := <-got:
			if err != nil {
				t.Fatal(err)
			}
		case <-time.After(20 * time.Second): // a third of the TTL
			t.Fatal("the waiter was not notified")
		}
	}
}

// Where a pooler hands out connections by transaction nothing listens: that would stay
// behind, and PgBouncer 1.18 dies of a notice that comes while a call is called off.
func TestBehindPgBouncer(t *testing.T) {
	t.Parallel()
	pool := serverPool(t)
	for mode, listens := range map[string]bool{"transaction": false, "session": true} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			name := "pooled_by_" + mode
			for _, sql := range []string{"CREATE DATABASE " + name, "ALTER DATABASE " + name + " SET log_statement = 'all'"} {
				if _, err := pool.Exec(t.Context(), sql); err != nil {
					t.Fatal(err)
				}
			}
			b := testserver.PgBouncer(t, shared.server, mode)
			store := strings.Replace(urlOf(b.Addr()), "/postgres?", "/"+name+"?table_prefix="+name+"_&", 1)
			if err := openStore(t, store).Migrate(t.Context()); err != nil {
				t.Fatal(err)
			}
			if n := contend(t, store, 4, 15); n != 0 {
				t.Errorf("%d batches were refused", n)
			}
			e := openStore(t, store)
			if err := e.store.ready(t.Context()); err != nil {
				t.Fatal(err)
			}
			if !e.store.from.(*ownSource).pooled.Load() {
				t.Error("the pooler was not recognised")
			}
			handoff(t, openClient(t, store), openClient(t, store), t.Name(), func() {
				for deadline := time.Now().Add(30 * time.Second); listens && !listened(t, e) && time.Now().Before(deadline); {
					time.Sleep(5 * time.Millisecond)
				}
			}, func() {})
			if got := listened(t, e); got != listens {
				t.Errorf("a connection was made to listen: %v", got)
			}
		})
	}
}

// listened reports whether the server's log has a connection that listens for e's turns.
func listened(t *testing.T, e *Engine) bool {
	t.Helper()
	log, err := os.ReadFile(filepath.Join(shared.server.Dir(), "server.log"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Contains(string(log), "LISTEN "+e.store.tables.channel)
}

// The user's work has all connections of the pool.
func TestBeatsNeedNoConnectionOfTheUsers(t *testing.T) {
	t.Parallel()
	serverPool(t)
	const ttl = 5 * time.Second
	pool, err := pgxpool.New(t.Context(), urlOf(shared.server.Addr())+"&pool_max_conns=3")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	e, err := New(pool)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	c := pawl.New(e, pawl.WithTTL(ttl))
	l, err := c.Mutex(t.Name()).Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var busy []*pgxpool.Conn
	for range 3 {
		conn, err := pool.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		busy = append(busy, conn)
	}
	time.Sleep(ttl * 3 / 2)
	if err := l.Err(); err != nil {
		t.Errorf("lost while the pool was exhausted: %v", err)
	}
	for _, conn := range busy {
		conn.Release()
	}
	if err := l.Unlock(); err != nil {
		t.Error(err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

// The server restarts, and is killed and recovers, while a lock is held.
func TestARestartedServerKeepsItsLocks(t *testing.T) {
	t.Parallel()
	serverPool(t) // skips where there is none
	s := testserver.PostgreSQL(t)
	store := urlOf(s.Addr())
	if err := openStore(t, store).Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	c, rival := openClient(t, store, pawl.WithTTL(time.Minute)), openClient(t, store)
	l, err := c.Mutex(t.Name()).Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, how := range []string{"stopped", "killed"} {
		if how == "killed" {
			s.Kill()
		}
		s.Restart()
		if err := tryUntilAnswered(t, rival); !errors.Is(err, pawl.ErrHeld) {
			t.Errorf("a rival after the server was %s: %v", how, err)
		}
		if err := l.Err(); err != nil {
			t.Fatalf("lost after the server was %s: %v", how, err)
		}
	}
	if err := l.Unlock(); err != nil {
		t.Error(err)
	}
}

func tryUntilAnswered(t *testing.T, c *pawl.Client) error {
	t.Helper()
	for begun := time.Now(); ; {
		_, err := c.Mutex(t.Name()).TryLock(t.Context())
		if !errors.Is(err, pawl.ErrUnreachable) || time.Since(begun) > 45*time.Second {
			return err
		}
	}
}

// TestAPromotedReplicaForgetsButTokensRise: an asynchronous replica that did not
// receive a grant becomes the primary. Another claim is granted, with a larger
// token, and the old holder learns of it by its deadline.
func TestAPromotedReplicaForgetsButTokensRise(t *testing.T) {
	t.Parallel()
	serverPool(t)
	primary := testserver.PostgreSQL(t)
	link := faultproxy.New(t, primary.Addr())
	if err := openStore(t, urlOf(primary.Addr())).Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	replica := testserver.PostgreSQLReplica(t, link.Addr())
	if _, err := openStore(t, urlOf(replica.Addr())).Open(t.Context(), driver.SessionOptions{ID: "x", TTL: time.Second}); !errors.Is(err, driver.ErrDenied) {
		t.Errorf("a session on a replica: %v", err)
	}
	both := "postgres://postgres@" + primary.Addr() + "," + replica.Addr() + "/postgres?sslmode=disable&target_session_attrs=read-write"
	c := openClient(t, both, pawl.WithTTL(3*time.Second))
	link.BlackHole(faultproxy.Both)
	old, err := c.Mutex(t.Name()).Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	primary.Kill()
	conn, err := pgx.Connect(t.Context(), urlOf(replica.Addr()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	if _, err := conn.Exec(t.Context(), "SELECT pg_promote()"); err != nil {
		t.Fatal(err)
	}
	l, err := openClient(t, both).Mutex(t.Name()).Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if l.Token() <= old.Token() {
		t.Errorf("token %d after the failover, %d before", l.Token(), old.Token())
	}
	select {
	case <-old.Context().Done():
	case <-time.After(15 * time.Second):
		t.Error("the holder from before the failover did not learn of it")
	}
	_ = l.Unlock()
}

func TestAFailedTryWritesNothing(t *testing.T) {
	t.Parallel()
	serverPool(t)
	s := testserver.PostgreSQL(t, "-c", "autovacuum=off")
	store := urlOf(s.Addr())
	e := openStore(t, store)
	if err := e.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := openClient(t, store, pawl.WithTTL(time.Hour)).Mutex("m").Lock(t.Context()); err != nil {
		t.Fatal(err)
	}
	session, err := e.Open(t.Context(), driver.SessionOptions{ID: "s", TTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.Connect(t.Context(), store)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	position := func() (lsn string) {
		if err := conn.QueryRow(t.Context(), "SELECT pg_current_wal_insert_lsn()::text").Scan(&lsn); err != nil {
			t.Fatal(err)
		}
		return lsn
	}
	failTries := func(n int) {
		for i := range n {
			c := driver.Claim{ID: strings.Repeat("f", 32), Try: i + 1, Name: "m", Need: 1, Limit: 1}
			token, err := session.(interface {
				Enter(context.Context, driver.Claim) (driver.Standing, error)
			}).Enter(t.Context(), c)
			if err != nil || token.Held {
				t.Fatalf("%+v, %v", token, err)
			}
		}
	}
	failTries(1)
	before := position()
	failTries(20)
	if after := position(); after != before {
		t.Errorf("twenty failed tries moved the log from %s to %s", before, after)
	}
}

func TestErrorsSayWhatToDoAndHideThePassword(t *testing.T) {
	t.Parallel()
	pool := serverPool(t)
	addr := shared.server.Addr()
	for _, q := range []string{
		"CREATE ROLE nobody_here LOGIN", "CREATE TABLE strange_meta (one int, schema int)", "INSERT INTO strange_meta VALUES (1, 1)",
		"CREATE TABLE strange_head (colour text)", "CREATE TABLE strange_claim (colour text)", "CREATE TABLE strange_record (colour text)",
	} {
		if _, err := pool.Exec(t.Context(), q); err != nil {
			t.Fatal(err)
		}
	}
	const secret = "hunter2"
	for name, c := range map[string]struct {
		store, says string
		is          error
	}{
		"no server":       {"postgres://ana:" + secret + "@127.0.0.1:1/app?connect_timeout=2", "", driver.ErrUnreachable},
		"no database":     {"postgres://postgres:" + secret + "@" + addr + "/nothing?sslmode=disable", "nothing", driver.ErrDenied},
		"no user":         {"postgres://ana:" + secret + "@" + addr + "/postgres?sslmode=disable", "ana", driver.ErrDenied},
		"no rights":       {"postgres://nobody_here:" + secret + "@" + addr + "/postgres?sslmode=disable", "permission denied", driver.ErrDenied},
		"no tables":       {urlOf(addr) + "&table_prefix=missing_", "pawl migrate", nil},
		"others' tables":  {urlOf(addr) + "&table_prefix=strange_", "table_prefix", nil},
		"no such service": {"postgres://ana:" + secret + "@" + addr + "/app?service=nowhere", "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			u, err := url.Parse(c.store)
			if err != nil {
				t.Fatal(err)
			}
			e, err := openURL(t.Context(), u)
			if err == nil {
				defer e.Close()
				var s driver.Session
				if s, err = e.Open(t.Context(), driver.SessionOptions{ID: "s", TTL: time.Second}); err == nil {
					_, err = s.Enter(t.Context(), driver.Claim{ID: "c", Try: 1, Name: "n", Need: 1, Limit: 1})
				}
			}
			if err == nil || !strings.Contains(err.Error(), c.says) || c.is != nil && !errors.Is(err, c.is) {
				t.Errorf("%v", err)
			}
			if err != nil && strings.Contains(err.Error(), secret) {
				t.Errorf("the password shows: %v", err)
			}
		})
	}
	other, err := NewDB(sql.OpenDB(noDriver{}))
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if _, err := other.Open(t.Context(), driver.SessionOptions{ID: "s", TTL: time.Second}); !errors.Is(err, driver.ErrUnsupported) {
		t.Errorf("a *sql.DB of another driver: %v", err)
	}
}
