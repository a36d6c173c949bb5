package redlock_test

import (
	"flag"
	"os"
	"sync"
	"testing"

	"github.com/pawl-go/pawl/internal/testserver"
)

// TestMain runs more tests in parallel than there are processors: most of them wait, for
// a server to be old enough or for a lease to expire.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	code := m.Run()
	shared.end()
	os.Exit(code)
}

// shared is five servers for the tests that do not stop, empty or configure servers. A
// new server does not vote for max-ttl, and each test with servers of its own waits for it.
var shared = serverPool{over: make(chan struct{}), ended: make(chan error, 1)}

type serverPool struct {
	once  sync.Once
	all   []*testserver.Server // nil: they could not be started
	over  chan struct{}        // closed by end
	ended chan error           // receives the result of testserver.RunOutsideTest
}

// sharedServers returns n of the shared servers. If these could not be started, the test
// starts its own, and fails for the same reason.
func sharedServers(t *testing.T, n int) []*testserver.Server {
	t.Helper()
	shared.once.Do(shared.start)
	if shared.all == nil {
		return servers(t, n)
	}
	return shared.all[:n]
}

func (p *serverPool) start() {
	up := make(chan []*testserver.Server, 1)
	go func() { // end waits for it
		p.ended <- testserver.RunOutsideTest(func(t testing.TB) {
			up <- servers(t, 5)
			<-p.over
		})
	}()
	select {
	case p.all = <-up:
	case <-p.ended:
	}
}

func (p *serverPool) end() {
	if p.all != nil {
		close(p.over)
		<-p.ended
	}
}
