package etcdlock

import (
	"flag"
	"os"
	"sync"
	"testing"

	"github.com/pawl-go/pawl/internal/testserver"
)

// TestMain lets more tests run beside each other than there are processors: most
// of them wait for a lease to expire.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "6"); err != nil {
		panic(err)
	}
	code := m.Run()
	house.end()
	os.Exit(code)
}

// house is where the server lives that tests share who leave it as it is: a server
// of its own for each would be most of what a busy machine is busy with.
var house = lodge{over: make(chan struct{}), ended: make(chan error, 1)}

type lodge struct {
	once  sync.Once
	one   *testserver.Server // nil: it could not be started
	over  chan struct{}      // closed by end
	ended chan error         // what became of the server
}

// common returns that server, Debian's etcd. Who cannot have it is told why by a
// server of its own, which cannot be had either.
func common(t testing.TB) *testserver.Server {
	t.Helper()
	house.once.Do(house.begin)
	if house.one == nil {
		return testserver.Etcd(t)
	}
	return house.one
}

func (l *lodge) begin() {
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

func (l *lodge) end() {
	if l.one != nil {
		close(l.over)
		<-l.ended
	}
}
