package rueidis_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/internal/stalltest"
	"github.com/pawl-go/pawl/internal/testserver"
)

// silentTTL is long enough for a busy machine to detect a dead connection and to make
// another.
const silentTTL = 5 * time.Second

// outlives fails unless the leases that take returns are renewed for two TTLs. If the
// machine stalled meanwhile, a lost lease proves nothing, and the test is repeated.
func outlives(t *testing.T, take func() []*pawl.Lease) {
	t.Helper()
	stalltest.Succeeds(t, silentTTL/10, func() error { return renewed(take()) })
}

// renewed waits until leases have been renewed for two TTLs, and gives them back.
func renewed(leases []*pawl.Lease) (failed error) {
	from := time.Now()
	for _, l := range leases {
		for failed == nil && !l.Deadline().After(from.Add(2*silentTTL)) {
			select {
			case <-l.Context().Done():
				failed = context.Cause(l.Context())
			case <-time.After(silentTTL / 50):
			}
		}
	}
	for _, l := range leases {
		if err := l.Unlock(); failed == nil {
			failed = err
		}
	}
	return failed
}

// All existing connections stop carrying data, and new ones work, as when a firewall has
// lost its state.
func TestALeaseOutlivesConnectionsThatDieSilently(t *testing.T) {
	t.Parallel()
	s := testserver.Redis(t)
	f := newForgetful(t, s.Addr())
	c, err := pawl.Open(t.Context(), "redis://"+f.addr(), pawl.WithTTL(silentTTL))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for range 2 { // the first connections, and those that replaced them
		outlives(t, func() []*pawl.Lease {
			l, err := c.Mutex("job").Lock(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			f.forget()
			return []*pawl.Lease{l}
		})
	}
}

// Waiting for replicas uses connections of the client's pool. The idle ones are dead too
// when a beat needs a live one.
func TestALeaseThatWaitsForReplicasOutlivesConnectionsThatDieSilently(t *testing.T) {
	t.Parallel()
	const crowd = 12
	s := testserver.Redis(t)
	testserver.RedisReplica(t, s.Addr())
	f := newForgetful(t, s.Addr())
	c, err := pawl.Open(t.Context(), "redis://"+f.addr()+"?wait=1&wait-timeout=2s", pawl.WithTTL(silentTTL))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for range 2 {
		outlives(t, func() []*pawl.Lease {
			leases := make([]*pawl.Lease, crowd)
			var wg sync.WaitGroup
			for i := range leases { // concurrently, so that each has a connection
				wg.Go(func() {
					l, err := c.Mutex(fmt.Sprint("job", i)).Lock(t.Context())
					if err != nil {
						t.Error(err)
					}
					leases[i] = l
				})
			}
			wg.Wait()
			if t.Failed() {
				t.FailNow()
			}
			f.forget()
			return leases
		})
	}
}

// A forgetful is a proxy that can stop serving its existing connections.
type forgetful struct {
	t      *testing.T
	l      net.Listener
	target string
	work   sync.WaitGroup

	mu    sync.Mutex // guards conns
	conns []net.Conn
	gone  chan struct{} // closed when the present ones stop being served; guarded by mu
}

func newForgetful(t *testing.T, target string) *forgetful {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &forgetful{t: t, l: l, target: target, gone: make(chan struct{})}
	f.work.Go(f.accept)
	t.Cleanup(func() {
		l.Close()
		f.forget()
		f.mu.Lock()
		for _, c := range f.conns {
			c.Close()
		}
		f.mu.Unlock()
		f.work.Wait()
	})
	return f
}

func (f *forgetful) addr() string { return f.l.Addr().String() }

func (f *forgetful) forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	close(f.gone)
	f.gone = make(chan struct{})
}

func (f *forgetful) accept() {
	for {
		near, err := f.l.Accept()
		if err != nil {
			return
		}
		far, err := net.Dial("tcp", f.target)
		if err != nil {
			near.Close()
			continue
		}
		f.mu.Lock()
		f.conns = append(f.conns, near, far)
		gone := f.gone
		f.mu.Unlock()
		f.work.Go(func() { pass(far, near, gone) })
		f.work.Go(func() { pass(near, far, gone) })
	}
}

// pass carries bytes until gone is closed, and drops them from then on.
func pass(to io.Writer, from io.Reader, gone <-chan struct{}) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		select {
		case <-gone:
			continue
		default:
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}
