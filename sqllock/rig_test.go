package sqllock_test

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/hex"
	"flag"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib"
	_ "github.com/ncruces/go-sqlite3/driver"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/testserver"
	_ "github.com/pawl-go/pawl/memlock"
	_ "github.com/pawl-go/pawl/sqllock/mysql"
	_ "github.com/pawl-go/pawl/sqllock/postgres"
	_ "github.com/pawl-go/pawl/sqllock/sqlite"
)

// A rig is one database on which the tests of this package run, with its tables
// made. All tests share it, each with names of its own.
type rig struct {
	name   string
	url    string
	addr   string // "" where there is no server
	db     *sql.DB
	driver string // of db
	dsn    string
	server *testserver.Server
	mark   func(n int) string // of the n-th parameter
}

// polls reports whether waiters look for their turn.
func (r *rig) polls() bool { return r.name == "mariadb" || r.name == "mysql" }

// hands is a testing.TB for servers that live as long as all tests.
type hands struct {
	testing.TB
	mu       sync.Mutex // guards cleanups
	cleanups []func()
}

type skip string

func (h *hands) Helper()                   {}
func (h *hands) Failed() bool              { return false }
func (h *hands) Logf(string, ...any)       {}
func (h *hands) Errorf(f string, a ...any) { fmt.Fprintf(os.Stderr, f+"\n", a...) }
func (h *hands) Skip(a ...any)             { panic(skip(fmt.Sprint(a...))) }
func (h *hands) Skipf(f string, a ...any)  { panic(skip(fmt.Sprintf(f, a...))) }
func (h *hands) Fatalf(f string, a ...any) { panic(fmt.Sprintf(f, a...)) }
func (h *hands) Fatal(a ...any)            { panic(fmt.Sprint(a...)) }

func (h *hands) Cleanup(f func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.cleanups = append(h.cleanups, f)
}

func (h *hands) end() {
	for i := len(h.cleanups) - 1; i >= 0; i-- {
		h.cleanups[i]()
	}
}

var all = &hands{}

func TestMain(m *testing.M) {
	if role := os.Getenv(roleEnv); role != "" {
		os.Exit(play(role))
	}
	flag.Parse()
	// Tests wait for expiries more than they work.
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	code := m.Run()
	all.end()
	os.Exit(code)
}

// rigs make each database once, when a test first wants it.
var rigs = []*struct {
	name string
	make func() (*rig, error)
	mu   sync.Mutex // held while it is made; guards made
	made *rig
}{
	{name: "postgres", make: sync.OnceValues(func() (*rig, error) {
		return postgresRig(testserver.PostgreSQL(all, "-c", "max_connections=400")), nil
	})},
	{name: "mariadb", make: sync.OnceValues(func() (*rig, error) { return mysqlRig(testserver.MariaDB(all, "--max-connections=400")) })},
	{name: "mysql", make: sync.OnceValues(func() (*rig, error) { return mysqlRig(testserver.MySQL(all, "--max-connections=400")) })},
	{name: "sqlite", make: sync.OnceValues(func() (*rig, error) {
		dir, err := os.MkdirTemp("", "pawl-sqllock-")
		if err != nil {
			return nil, err
		}
		all.Cleanup(func() { os.RemoveAll(dir) })
		file := filepath.Join(dir, "pawl.db")
		return newRig("sqlite3", "file:"+file+"?_pragma=busy_timeout(10000)", "sqlite://"+file, nil), nil
	})},
}

func postgresRig(s *testserver.Server) *rig {
	store := "postgres://postgres@" + s.Addr() + "/postgres?sslmode=disable"
	return newRig("pgx", store, store+"&pool_max_conns=16", s)
}

// marks are how each driver writes the n-th parameter.
var marks = map[string]func(n int) string{
	"pgx":     func(n int) string { return fmt.Sprintf("$%d", n) },
	"mysql":   func(int) string { return "?" },
	"sqlite3": func(int) string { return "?" },
}

func newRig(driver, dsn, store string, s *testserver.Server) *rig {
	r := &rig{url: store, server: s, driver: driver, dsn: dsn, db: mustDB(driver, dsn), mark: marks[driver]}
	if s != nil {
		r.addr = s.Addr()
	}
	return r
}

func mysqlRig(s *testserver.Server) (*rig, error) {
	db := mustDB("mysql", "root@tcp("+s.Addr()+")/")
	_, err := db.Exec("CREATE DATABASE IF NOT EXISTS pawl")
	db.Close()
	return newRig("mysql", "root@tcp("+s.Addr()+")/pawl", "mysql://root@"+s.Addr()+"/pawl", s), err
}

func mustDB(driver, dsn string) *sql.DB {
	db, err := sql.Open(driver, dsn)
	if err != nil {
		panic(err)
	}
	all.Cleanup(func() { db.Close() })
	return db
}

type migrator interface{ Migrate(context.Context) error }

// rigOf returns a database with its tables, or skips.
func rigOf(t *testing.T, i int) *rig {
	t.Helper()
	rigs[i].mu.Lock()
	defer rigs[i].mu.Unlock()
	if r := rigs[i].made; r != nil {
		return r
	}
	defer func() {
		switch why := recover().(type) {
		case nil:
		case skip:
			t.Skip(string(why))
		default:
			t.Fatal(why)
		}
	}()
	r, err := rigs[i].make()
	if err != nil {
		t.Fatal(err)
	}
	r.name = rigs[i].name
	r.migrate(t)
	rigs[i].made = r
	return r
}

// migrate makes the tables.
func (r *rig) migrate(t testing.TB) {
	t.Helper()
	e := r.engine(t)
	defer e.Close()
	if m, ok := e.(migrator); ok {
		if err := m.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// everywhere runs a test on every database.
func everywhere(t *testing.T, test func(t *testing.T, r *rig)) {
	for i := range rigs {
		t.Run(rigs[i].name, func(t *testing.T) {
			t.Parallel()
			test(t, rigOf(t, i))
		})
	}
}

// onServers runs a test on every database that is a server.
func onServers(t *testing.T, test func(t *testing.T, r *rig)) {
	for i := range rigs {
		if rigs[i].name == "sqlite" {
			continue
		}
		t.Run(rigs[i].name, func(t *testing.T) {
			t.Parallel()
			test(t, rigOf(t, i))
		})
	}
}

// engine opens the store as another process would.
func (r *rig) engine(t testing.TB) driver.Engine {
	t.Helper()
	return openEngine(t, r.url)
}

// via is the store's URL through another address.
func (r *rig) via(addr string) string { return strings.Replace(r.url, r.addr, addr, 1) }

func openEngine(t testing.TB, store string) driver.Engine {
	t.Helper()
	u, err := url.Parse(store)
	if err != nil {
		t.Fatal(err)
	}
	open, _ := driver.Lookup(u.Scheme)
	e, err := open(t.Context(), u)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
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

func openSession(t testing.TB, e driver.Engine, ttl time.Duration) driver.Session {
	t.Helper()
	s, err := e.Open(t.Context(), driver.SessionOptions{ID: newID(), TTL: ttl, Note: "test"})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func newID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

func mutex(name string) driver.Claim {
	return driver.Claim{ID: newID(), Try: 1, Name: name, Need: 1, Limit: 1, Queue: true, Note: "test"}
}

func tries(c driver.Claim) driver.Claim {
	c.Queue = false
	return c
}

func enter(t testing.TB, s driver.Session, c driver.Claim) driver.Standing {
	t.Helper()
	st, err := s.Enter(t.Context(), c)
	if err != nil {
		t.Fatalf("Enter: %v", err)
	}
	return st
}

func hold(t testing.TB, s driver.Session, c driver.Claim) driver.Standing {
	t.Helper()
	st := enter(t, s, c)
	if !st.Held {
		t.Fatalf("not held: %+v", st)
	}
	return st
}

// take enters until held: a name whose holder is silent is had at its expiry.
func take(t testing.TB, s driver.Session, c driver.Claim) driver.Standing {
	t.Helper()
	st := enter(t, s, c)
	for deadline := time.Now().Add(30 * time.Second); !st.Held; {
		if time.Now().After(deadline) {
			t.Fatalf("not held after 30 s: %+v", st)
		}
		var err error
		if st, err = s.Await(t.Context(), c, st); err != nil || st.Gone {
			t.Fatalf("Await: %+v, %v", st, err)
		}
	}
	return st
}

// exec runs a statement of the test's own.
func (r *rig) exec(t testing.TB, query string, args ...any) {
	t.Helper()
	if _, err := r.db.ExecContext(t.Context(), r.marked(query), args...); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
}

// userTables are the tables of the tests' own, each by its database and what it is.
var userTables sync.Map // to sync.OnceValue's func() error

// table makes a table of the test's own, if no other test has made it yet.
func (r *rig) table(t testing.TB, what string) {
	t.Helper()
	create, _ := userTables.LoadOrStore(r.dsn+" "+what, sync.OnceValue(func() error {
		_, err := r.db.Exec("CREATE TABLE " + what)
		return err
	}))
	if err := create.(func() error)(); err != nil {
		t.Fatal(err)
	}
}

// marked writes parameters, given as ?, as the database wants them.
func (r *rig) marked(query string) string {
	parts := strings.Split(query, "?")
	out := parts[0]
	for i, p := range parts[1:] {
		out += r.mark(i+1) + p
	}
	return out
}

func (r *rig) number(t testing.TB, query string, args ...any) (n int64) {
	t.Helper()
	if err := r.db.QueryRowContext(t.Context(), r.marked(query), args...).Scan(&n); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return n
}

func nameOf(t testing.TB) string { return t.Name() + "/" + newID()[:6] }
