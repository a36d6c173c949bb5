package redlock_test

import (
	"flag"
	"os"
	"sync"
	"testing"

	"github.com/pawl-go/pawl/internal/testserver"
)

// TestMain lets more tests run beside each other than there are processors: most
// of them wait, for a server to be old enough or for a lease to expire.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	code := m.Run()
	house.end()
	os.Exit(code)
}

// house is where the five servers live that tests share who leave them as they are.
// A new server does not vote for as long as max-ttl: tests with servers of their own
// wait for that each.
var house = lodge{over: make(chan struct{}), ended: make(chan error, 1)}

type lodge struct {
	once  sync.Once
	all   []*testserver.Server // none: they could not be started
	over  chan struct{}        // closed by end
	ended chan error           // what became of the servers
}

// common returns n of these servers. Who cannot have them is told why by servers of
// its own, which cannot be had either.
func common(t *testing.T, n int) []*testserver.Server {
	t.Helper()
	house.once.Do(house.begin)
	if house.all == nil {
		return servers(t, n)
	}
	return house.all[:n]
}

func (l *lodge) begin() {
	up := make(chan []*testserver.Server, 1)
	go func() { // end waits for it
		l.ended <- testserver.RunOutsideTest(func(t testing.TB) {
			up <- servers(t, 5)
			<-l.over
		})
	}()
	select {
	case l.all = <-up:
	case <-l.ended:
	}
}

func (l *lodge) end() {
	if l.all != nil {
		close(l.over)
		<-l.ended
	}
}
