package etcdlock

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/etcdlock/internal/etcdstore"
	"github.com/pawl-go/pawl/internal/testserver"
)

// Many tests here repeat an order of events in which another lock library failed, and
// cite the report. What every engine must do is tested by drivertest.

// soon is how long a test waits for a step that should take no time.
const soon = 5 * time.Second

// longTTL is the TTL of sessions without beats: no test takes that long.
const longTTL = 10 * time.Minute

// dial returns a client for the length of a test, made as the documentation advises.
func dial(t testing.TB, addrs []string, opts ...grpc.DialOption) *clientv3.Client {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{
		Endpoints: addrs, DialOptions: opts, Logger: zap.NewNop(),
		DialKeepAliveTime: etcdstore.PingAfter, DialKeepAliveTimeout: etcdstore.PingTimeout,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// engine returns an engine on a client of its own for the length of a test. All engines
// of one test share a prefix, which those of other tests do not.
func engine(t testing.TB, addrs []string, opts ...grpc.DialOption) *Engine {
	t.Helper()
	e := newTestEngine(dial(t, addrs, opts...), "test/"+t.Name())
	t.Cleanup(func() { e.Close() })
	return e
}

// clients has the client of every engine of a test.
var clients sync.Map

func newTestEngine(c *clientv3.Client, prefix string) *Engine {
	e := New(c, WithPrefix(prefix))
	clients.Store(e, c)
	return e
}

// clientOf returns the client of an engine.
func clientOf(e *Engine) *clientv3.Client {
	c, _ := clients.Load(e)
	return c.(*clientv3.Client)
}

// open opens a session. If it needs beats, the test sends them.
func open(t testing.TB, e *Engine, ttl time.Duration) *session {
	t.Helper()
	s, err := e.Open(t.Context(), driver.SessionOptions{ID: newID(), TTL: ttl})
	if err != nil {
		t.Fatal(err)
	}
	return s.(*session)
}

// client returns a client of package pawl on an engine of its own.
func client(t testing.TB, addrs []string, ttl time.Duration, opts ...grpc.DialOption) *pawl.Client {
	t.Helper()
	c := pawl.New(engine(t, addrs, opts...), pawl.WithTTL(ttl))
	t.Cleanup(func() { c.Close() })
	return c
}

func newID() string {
	var b [16]byte
	rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// mutex returns an exclusive claim on name that queues.
func mutex(name string) driver.Claim {
	return driver.Claim{ID: newID(), Try: 1, Name: name, Need: 1, Limit: 1, Queue: true, Note: "a test"}
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

// hold enters c, which must be held at once.
func hold(t testing.TB, s driver.Session, c driver.Claim) driver.Standing {
	t.Helper()
	st := enter(t, s, c)
	if !st.Held {
		t.Fatalf("Enter: %+v, not held", st)
	}
	return st
}

// wait enters c, which must have to wait.
func wait(t testing.TB, s driver.Session, c driver.Claim) driver.Standing {
	t.Helper()
	st := enter(t, s, c)
	if st.Held || st.Gone {
		t.Fatalf("Enter: %+v, not waiting", st)
	}
	return st
}

func leave(t testing.TB, s driver.Session, c driver.Claim) {
	t.Helper()
	if err := s.Leave(t.Context(), c); err != nil {
		t.Fatalf("Leave: %v", err)
	}
}

// until calls Await until c is held, gone or in error.
func until(ctx context.Context, s driver.Session, c driver.Claim, st driver.Standing) (driver.Standing, error) {
	var err error
	for err == nil && !st.Held && !st.Gone {
		st, err = s.Await(ctx, c, st)
	}
	return st, err
}

// untilReachable is until for a store that is unreachable at times: Await is repeated, as
// the core does.
func untilReachable(ctx context.Context, s driver.Session, c driver.Claim, st driver.Standing) (driver.Standing, error) {
	for {
		next, err := s.Await(ctx, c, st)
		switch {
		case errors.Is(err, driver.ErrUnreachable), errors.Is(err, context.DeadlineExceeded):
			continue
		case err != nil || next.Held || next.Gone:
			return next, err
		}
	}
}

// backup copies the data of a server. restore puts it back.
func backup(t testing.TB, server *testserver.Server) (restore func()) {
	t.Helper()
	data := filepath.Join(server.Dir(), "data")
	server.Stop()
	if err := os.CopyFS(data+".old", os.DirFS(data)); err != nil {
		t.Fatal(err)
	}
	server.Restart()
	return func() {
		t.Helper()
		server.Stop()
		if err := errors.Join(os.RemoveAll(data), os.Rename(data+".old", data)); err != nil {
			t.Fatal(err)
		}
		server.Restart()
	}
}

// compact removes all revisions before the present one.
func compact(t testing.TB, c *clientv3.Client) {
	t.Helper()
	now, err := c.Put(t.Context(), "other", "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Compact(t.Context(), now.Header.Revision); err != nil {
		t.Fatal(err)
	}
}

// a promise is the result of a goroutine of the test.
type promise[T any] struct {
	done  chan struct{} // closed by the goroutine
	value T
	err   error
}

// begin runs f beside the test, which waits for its end.
func begin[T any](t testing.TB, f func() (T, error)) *promise[T] {
	p := &promise[T]{done: make(chan struct{})}
	go func() {
		defer close(p.done)
		p.value, p.err = f()
	}()
	t.Cleanup(func() { <-p.done })
	return p
}

// within returns the result of f, and fails the test if that takes longer.
func (p *promise[T]) within(t testing.TB, d time.Duration, what string) (T, error) {
	t.Helper()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-p.done:
	case <-timer.C:
		t.Fatalf("%s: not within %v", what, d)
	}
	return p.value, p.err
}

// lock locks and fails the test if that fails.
func lock(t testing.TB, m *pawl.Mutex) *pawl.Lease {
	t.Helper()
	l, err := m.Lock(t.Context())
	if err != nil {
		t.Fatalf("Lock: %v", err)
	}
	return l
}

// keysOf returns the keys of a name's line.
func keysOf(t testing.TB, e *Engine, name string) []string {
	t.Helper()
	line := e.keys.line(name).all()
	got, err := clientOf(e).Get(t.Context(), line.From, clientv3.WithRange(line.To))
	if err != nil {
		t.Fatal(err)
	}
	var keys []string
	for _, kv := range got.Kvs {
		keys = append(keys, string(kv.Key))
	}
	return keys
}

// contains matches requests that contain word.
func contains(word string) func([]byte) bool {
	return func(request []byte) bool { return bytes.Contains(request, []byte(word)) }
}

// A leaseLog records the leases that clients were granted.
type leaseLog struct {
	mu  sync.Mutex // guards ids
	ids []int64
}

// note is a client's option that records its leases.
func (g *leaseLog) note() grpc.DialOption {
	return afterCall(func(_ string, _, reply any, err error) {
		if r, ok := reply.(*pb.LeaseGrantResponse); ok && err == nil {
			g.mu.Lock()
			defer g.mu.Unlock()
			g.ids = append(g.ids, r.ID)
		}
	})
}

// expect fails unless err is want.
func expect(t testing.TB, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: %v, not %q", what, err, want)
	}
}
