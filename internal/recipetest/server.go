package recipetest

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"strconv"
	"sync"
	"testing"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/internal/testserver"
)

// Main runs the tests of a package and then ends the servers that they shared. More
// tests run in parallel than there are processors: mostly they wait for a lease to end.
func Main(m *testing.M) (code int) { return MainParallel(m, 8) }

// MainParallel is Main with the given number of tests in parallel.
func MainParallel(m *testing.M, tests int) (code int) {
	if !flag.Parsed() {
		flag.Parse()
	}
	if err := flag.Set("test.parallel", strconv.Itoa(tests)); err != nil {
		panic(err)
	}
	defer shared.end()
	return m.Run()
}

// shared are the servers of this binary.
var shared = serverGroup{over: make(chan struct{})}

type serverGroup struct {
	over    chan struct{} // closed when the last test has ended
	servers sync.WaitGroup
}

func (l *serverGroup) end() {
	close(l.over)
	l.servers.Wait()
}

// A sharedServer is a server, or several, that all tests of a binary share. It starts
// when the first test asks for it.
type sharedServer struct {
	start func(t testing.TB) []*testserver.Server
	once  sync.Once
	all   []*testserver.Server
	err   error // why it could not be started
}

// servers returns the servers. If they cannot start, every test that asks for them
// fails or is skipped.
func (l *sharedServer) servers(t testing.TB) []*testserver.Server {
	t.Helper()
	l.once.Do(l.begin)
	switch {
	case errors.Is(l.err, testserver.ErrSkipped):
		t.Skip(l.err)
	case l.err != nil:
		t.Fatal(l.err)
	}
	return l.all
}

func (l *sharedServer) begin() {
	ready := make(chan error, 2)
	shared.servers.Go(func() { // end waits for it
		ready <- testserver.RunOutsideTest(func(t testing.TB) {
			l.all = l.start(t)
			ready <- nil
			<-shared.over
		})
	})
	l.err = <-ready
}

// addrs returns the addresses that the servers listen on.
func (l *sharedServer) addrs(t testing.TB) (addrs []string) {
	t.Helper()
	for _, s := range l.servers(t) {
		addrs = append(addrs, s.Addr())
	}
	return addrs
}

// one is a sharedServer with a single server.
func one(start func(t testing.TB, args ...string) *testserver.Server, args ...string) *sharedServer {
	return &sharedServer{start: func(t testing.TB) []*testserver.Server { return []*testserver.Server{start(t, args...)} }}
}

// withTables creates the tables of the store at url when the server has started.
func (l *sharedServer) withTables(url func(addrs []string, prefix string) string) *sharedServer {
	start := l.start
	l.start = func(t testing.TB) []*testserver.Server {
		t.Helper()
		all := start(t)
		c := On(url([]string{all[0].Addr()}, ""))(t)
		type migrator interface{ Migrate(context.Context) error }
		if err := c.Engine().(migrator).Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
		return all
	}
	return l
}

// Redis returns the address of the shared server.
func Redis(t testing.TB) string { t.Helper(); return oneRedis.addrs(t)[0] }

// PostgreSQL returns the address of the shared server, which has the user postgres and the database postgres, without a password.
func PostgreSQL(t testing.TB) string { t.Helper(); return postgreSQL.addrs(t)[0] }

// MariaDB returns the address of the shared server, which has the user root and the database mysql, without a password.
func MariaDB(t testing.TB) string { t.Helper(); return mariaDB.addrs(t)[0] }

// On opens clients on the store at a URL.
func On(url string) Opener {
	return func(t testing.TB, opts ...pawl.Option) *pawl.Client {
		t.Helper()
		c, err := pawl.Open(t.Context(), url, opts...)
		if err != nil {
			t.Fatal(fmt.Errorf("open a client: %w", err))
		}
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
}
