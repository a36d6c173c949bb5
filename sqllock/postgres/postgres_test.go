package postgres

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/drivertest"
	"github.com/pawl-go/pawl/internal/testserver"
)

// shared is the server that most tests use, each with tables or names of its own.
var shared struct {
	server *testserver.Server
	pool   *pgxpool.Pool
}

// Cases wait for expiries more than they work, so more of them than there are
// processors may run at once.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	os.Exit(withServer(m))
}

// hands is a testing.TB for what lives as long as all tests.
type hands struct {
	testing.TB
	cleanups []func()
	skipped  string
}

func (h *hands) Helper()                   {}
func (h *hands) Cleanup(f func())          { h.cleanups = append(h.cleanups, f) }
func (h *hands) Failed() bool              { return false }
func (h *hands) Logf(string, ...any)       {}
func (h *hands) Errorf(f string, a ...any) { fmt.Fprintf(os.Stderr, f+"\n", a...) }

func (h *hands) Skip(a ...any) {
	h.skipped = fmt.Sprint(a...)
	panic(h)
}

func (h *hands) Fatalf(f string, a ...any) {
	fmt.Fprintf(os.Stderr, f+"\n", a...)
	os.Exit(1)
}

func withServer(m *testing.M) (code int) {
	h := &hands{}
	defer func() {
		for i := len(h.cleanups) - 1; i >= 0; i-- {
			h.cleanups[i]()
		}
	}()
	start(h)
	return m.Run()
}

func start(h *hands) {
	defer func() {
		if r := recover(); r != nil && r != any(h) {
			panic(r)
		}
	}()
	shared.server = testserver.PostgreSQL(h, "-c", "max_connections=300")
	pool, err := pgxpool.New(context.Background(), urlOf(shared.server.Addr())+"&pool_max_conns=20")
	if err != nil {
		h.Fatalf("%v", err)
	}
	shared.pool = pool
	h.Cleanup(pool.Close)
	e, err := New(pool)
	if err == nil {
		err = e.Migrate(context.Background())
	}
	if err != nil {
		h.Fatalf("%v", err)
	}
	e.Close()
}

func urlOf(addr string) string { return "postgres://postgres@" + addr + "/postgres?sslmode=disable" }

func serverPool(t testing.TB) *pgxpool.Pool {
	t.Helper()
	if shared.pool == nil {
		t.Skip("postgresql is not there")
	}
	return shared.pool
}

func TestLaws(t *testing.T) {
	t.Parallel()
	pool := serverPool(t)
	open := func(t *testing.T) driver.Engine {
		e, err := New(pool)
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	drivertest.Run(t, drivertest.Harness{
		Open:   open,
		Peer:   func(t *testing.T, _ driver.Engine) driver.Engine { return open(t) },
		Crash:  func(driver.Session) {},
		MinTTL: 750 * time.Millisecond,
		Stays:  func(stack string) bool { return strings.Contains(stack, "pgxpool.(*Pool).backgroundHealthCheck") },
	})
}
