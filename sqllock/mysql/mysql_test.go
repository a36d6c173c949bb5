package mysql

import (
	"context"
	"crypto/rand"
	"database/sql"
	"flag"
	"fmt"
	"maps"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/drivertest"
	"github.com/pawl-go/pawl/internal/testserver"
)

// shared is the MariaDB that most tests use, each with a database or names of its
// own.
var shared *testserver.Server

// Cases wait for expiries more than they work, so more of them than there are
// processors may run at once.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	h := &hands{}
	start(h)
	code := m.Run()
	h.end()
	os.Exit(code)
}

// hands is a testing.TB for what lives as long as all tests.
type hands struct {
	testing.TB
	cleanups []func()
}

func (h *hands) Helper()                   {}
func (h *hands) Cleanup(f func())          { h.cleanups = append(h.cleanups, f) }
func (h *hands) Failed() bool              { return false }
func (h *hands) Logf(string, ...any)       {}
func (h *hands) Errorf(f string, a ...any) { fmt.Fprintf(os.Stderr, f+"\n", a...) }
func (h *hands) Skip(...any)               { panic(h) }

func (h *hands) Fatalf(f string, a ...any) {
	fmt.Fprintf(os.Stderr, f+"\n", a...)
	os.Exit(1)
}

func (h *hands) end() {
	for i := len(h.cleanups) - 1; i >= 0; i-- {
		h.cleanups[i]()
	}
}

// start starts the shared server, if there is one to be had.
func start(h *hands) {
	defer func() {
		if r := recover(); r != nil && r != any(h) {
			panic(r)
		}
	}()
	shared = testserver.MariaDB(h, "--max-connections=500")
}

// database makes a database with the tables on the shared server, and returns the
// server and the database's name.
func database(t testing.TB) (addr, name string) {
	t.Helper()
	if shared == nil {
		t.Skip("mariadb is not there")
	}
	name = "pawl_" + strings.ToLower(rand.Text()[:10])
	migrate(t, shared.Addr(), name)
	return shared.Addr(), name
}

// prepare makes the database pawl and the tables on a server of the test's own.
func prepare(t testing.TB, s *testserver.Server) *testserver.Server {
	t.Helper()
	migrate(t, s.Addr(), "pawl")
	return s
}

func migrate(t testing.TB, addr, name string) {
	t.Helper()
	if _, err := openDB(t, addr, "", "").Exec("CREATE DATABASE " + name); err != nil {
		t.Fatal(err)
	}
	e := openStore(t, addr+"/"+name, nil)
	defer e.Close()
	if err := e.Migrate(context.Background()); err != nil {
		t.Fatal(err)
	}
}

// openStore opens a store by its URL, all but the scheme and the user. Its
// sessions have the variables.
func openStore(t testing.TB, rest string, vars map[string]string) *Engine {
	t.Helper()
	u, err := url.Parse("mysql://root@" + rest)
	if err != nil {
		t.Fatal(err)
	}
	cfg, conns, opts, err := configOf(u)
	if err != nil {
		t.Fatal(err)
	}
	maps.Copy(cfg.Params, vars)
	e, err := open(cfg, conns, opts)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// openDB is a pool as a user has it.
func openDB(t testing.TB, addr, database, params string) *sql.DB {
	t.Helper()
	db, err := sql.Open("mysql", "root@tcp("+addr+")/"+database+"?"+params)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

// laws runs the suite. Every other session of a case is a peer's, on another kind of
// connection and at another level, as processes of different users are.
func laws(t *testing.T, open, peer func(t *testing.T) driver.Engine) {
	drivertest.Run(t, drivertest.Harness{
		Open:   open,
		Peer:   func(t *testing.T, _ driver.Engine) driver.Engine { return peer(t) },
		Crash:  func(driver.Session) {},
		MinTTL: 750 * time.Millisecond,
		// Of connections in a pool that the cases share.
		Stays: func(stack string) bool {
			return strings.Contains(stack, "go-sql-driver/mysql.(*mysqlConn).startWatcher")
		},
	})
}

// pooled opens engines on a pool of the user's.
func pooled(db *sql.DB) func(t *testing.T) driver.Engine {
	return func(t *testing.T) driver.Engine {
		e, err := New(db)
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
}

// TestLaws is on connections of our own, with the level at which MariaDB refuses most,
// beside a pool that takes one statement at a time, at the strictest.
func TestLaws(t *testing.T) {
	t.Parallel()
	addr, base := database(t)
	vars := map[string]string{"tx_isolation": "'REPEATABLE-READ'", "innodb_snapshot_isolation": "ON"}
	laws(t, func(t *testing.T) driver.Engine { return openStore(t, addr+"/"+base, vars) },
		pooled(openDB(t, addr, base, "tx_isolation='SERIALIZABLE'")))
}

// TestLawsOnMySQL is on a pool that takes one statement at a time, at the level that
// locks least, beside connections of our own, at the server's.
func TestLawsOnMySQL(t *testing.T) {
	t.Parallel()
	s := prepare(t, testserver.MySQL(t))
	laws(t, pooled(openDB(t, s.Addr(), "pawl", "transaction_isolation='READ-COMMITTED'")),
		func(t *testing.T) driver.Engine { return openStore(t, s.Addr()+"/pawl", nil) })
}
