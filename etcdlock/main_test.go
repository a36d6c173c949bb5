package etcdlock

import (
	"flag"
	"os"
	"sync"
	"testing"

	"github.com/pawl-go/pawl/internal/testserver"
)

// TestMain lets more tests run in parallel than there are processors: most of them
// wait for a lease to expire.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "6"); err != nil {
		panic(err)
	}
	code := m.Run()
	shared.end()
	os.Exit(code)
}

// shared is the server of all tests that leave a server as it was: starting one for
// each test would take most of a busy machine's time.
var shared = sharedServer{over: make(chan struct{}), ended: make(chan error, 1)}

type sharedServer struct {
	once  sync.Once
	one   *testserver.Server // nil: it could not be started
	over  chan struct{}      // closed by end
	ended chan error         // how the server ended
}

// sharedEtcd returns that server, Debian's etcd. If it could not be started, the test
// tries to start its own and fails with the reason.
func sharedEtcd(t testing.TB) *testserver.Server {
	t.Helper()
	shared.once.Do(shared.begin)
	if shared.one == nil {
		return testserver.Etcd(t)
	}
	return shared.one
}

func (l *sharedServer) begin() {
	up := make(chan *testserver.Server, 1)
	go func() { // end waits for it
		l.ended <- testserver.RunOutsideTest(func(t testing.TB) {
			up <- testserver.Etcd(t)
			<-l.over
		})
	}()
	select {
	case l.one = <-up:
	case <-l.ended:
	}
}

func (l *sharedServer) end() {
	if l.one != nil {
		close(l.over)
		<-l.ended
	}
}
