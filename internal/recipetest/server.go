package recipetest

import (
	"context"
	"errors"
	"flag"
	"strconv"
	"sync"
	"testing"

	"github.com/pawl-go/pawl/internal/testserver"
)

// Main runs the tests of a package and then ends the servers that they shared. More
// of them run beside each other than there are processors: mostly they wait for a
// lease to end.
func Main(m *testing.M) (code int) { return MainBeside(m, 8) }

// MainBeside is Main for tests that hardly do anything else than wait: so many run
// beside each other.
func MainBeside(m *testing.M, tests int) (code int) {
	if !flag.Parsed() {
		flag.Parse()
	}
	if err := flag.Set("test.parallel", strconv.Itoa(tests)); err != nil {
		panic(err)
	}
	defer house.end()
	return m.Run()
}

// house is where the shared servers live.
var house = lodge{over: make(chan struct{})}

type lodge struct {
	over    chan struct{} // closed when the last test has ended
	servers sync.WaitGroup
}

func (l *lodge) end() {
	close(l.over)
	l.servers.Wait()
}

// A lodger is a server, or several, that all tests of a binary share. It is started
// when the first of them wants it.
type lodger struct {
	start func(t testing.TB) []*testserver.Server
	once  sync.Once
	all   []*testserver.Server
	err   error // why it could not be started
}

// servers returns the servers. What keeps them from starting is told to every test
// that asks for them.
func (l *lodger) servers(t testing.TB) []*testserver.Server {
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

func (l *lodger) begin() {
	ready := make(chan error, 2)
	house.servers.Go(func() { // end waits for it
		ready <- testserver.RunOutsideTest(func(t testing.TB) {
			l.all = l.start(t)
			ready <- nil
			<-house.over
		})
	})
	l.err = <-ready
}

// addrs are the addresses that the servers listen on.
func (l *lodger) addrs(t testing.TB) (addrs []string) {
	t.Helper()
	for _, s := range l.servers(t) {
		addrs = append(addrs, s.Addr())
	}
	return addrs
}

// one is a lodger of a single server.
func one(start func(t testing.TB, args ...string) *testserver.Server, args ...string) *lodger {
	return &lodger{start: func(t testing.TB) []*testserver.Server { return []*testserver.Server{start(t, args...)} }}
}

// with has the tables made that the store at url needs.
func (l *lodger) with(url func(addrs []string, prefix string) string) *lodger {
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
