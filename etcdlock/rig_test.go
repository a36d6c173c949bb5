package etcdlock

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
)

// Many tests here go through an order of events in which another lock library went
// wrong, and name the place where that was reported. What is not here is a law of
// drivertest.

// soon is how long a test waits for what should take no time.
const soon = 5 * time.Second

// unbeaten is the TTL of a session that nobody beats: no test takes so long.
const unbeaten = 10 * time.Minute

// dial returns a client for the length of a test, made as the documents advise.
func dial(t testing.TB, addrs []string, opts ...grpc.DialOption) *clientv3.Client {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{
		Endpoints: addrs, DialOptions: opts, Logger: zap.NewNop(),
		DialKeepAliveTime: silence, DialKeepAliveTimeout: grace,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// engine returns an engine on a client of its own for the length of a test. All of
// one test meet, and those of different tests do not.
func engine(t testing.TB, addrs []string, opts ...grpc.DialOption) *Engine {
	t.Helper()
	e := New(dial(t, addrs, opts...), Prefix("test/"+t.Name()))
	t.Cleanup(func() { e.Close() })
	return e
}

// open opens a session that the test itself beats, if anybody does.
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

// mutex returns a claim that stands in line for name.
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

// wait enters c, which must stand in line.
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

// a promise is what a goroutine of the test will bring.
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

// within returns what f brought, and fails the test if that takes longer.
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
	line := e.space.line(name)
	got, err := e.client.Get(t.Context(), line.from, clientv3.WithRange(line.to))
	if err != nil {
		t.Fatal(err)
	}
	var keys []string
	for _, kv := range got.Kvs {
		keys = append(keys, string(kv.Key))
	}
	return keys
}

// about matches what a client sent to its server if it contains word.
func about(word string) func([]byte) bool {
	return func(request []byte) bool { return bytes.Contains(request, []byte(word)) }
}

// granted collects the leases that clients were granted.
type granted struct {
	mu  sync.Mutex // guards ids
	ids []int64
}

// note is a client's option that has its leases collected.
func (g *granted) note() grpc.DialOption {
	return each(func(_ string, _, reply any, err error) {
		if r, ok := reply.(*pb.LeaseGrantResponse); ok && err == nil {
			g.mu.Lock()
			defer g.mu.Unlock()
			g.ids = append(g.ids, r.ID)
		}
	})
}

// each is a client's option that has f called after every call that is answered
// once, with what was sent and received.
func each(f func(method string, request, reply any, err error)) grpc.DialOption {
	return grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, request, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		err := invoke(ctx, method, request, reply, cc, opts...)
		f(method, request, reply, err)
		return err
	})
}

// losing is a client's option that has the next reply lost once lose is set. What was
// asked for is done: a connection that is cut leaves that to chance.
func losing(lose *atomic.Bool) grpc.DialOption {
	return grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, request, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		err := invoke(ctx, method, request, reply, cc, opts...)
		if err == nil && lose.CompareAndSwap(true, false) {
			return status.Error(codes.Unavailable, "the connection broke")
		}
		return err
	})
}

// A tap lets a test act on one of a client's calls that are answered once: before it is
// sent, after it was answered, or in its place.
type tap struct {
	mu    sync.Mutex // guards what follows
	which func(request any) bool
	do    func(send func() error) error // nil: calls go as they are
}

// next has do make the next call with such a request. Calls that are made meanwhile go
// as they are.
func (p *tap) next(which func(request any) bool, do func(send func() error) error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.which, p.do = which, do
}

func (p *tap) take(request any) (do func(send func() error) error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.do != nil && p.which(request) {
		do, p.do = p.do, nil
	}
	return do
}

// option is a client's option.
func (p *tap) option() grpc.DialOption {
	return grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, request, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		send := func() error { return invoke(ctx, method, request, reply, cc, opts...) }
		if do := p.take(request); do != nil {
			return do(send)
		}
		return send()
	})
}

// heard is a client's option that has f called with every message that comes in
// on a stream; f may change it.
func heard(f func(method string, message any)) grpc.DialOption {
	return grpc.WithChainStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
		s, err := streamer(ctx, desc, cc, method, opts...)
		if err != nil {
			return nil, err
		}
		return &hearing{s, func(m any) { f(method, m) }}, nil
	})
}

type hearing struct {
	grpc.ClientStream
	f func(any)
}

func (h *hearing) RecvMsg(m any) error {
	err := h.ClientStream.RecvMsg(m)
	if err == nil {
		h.f(m)
	}
	return err
}

// muted has a client hear nothing more on the streams that it has.
type muted struct{ streams atomic.Int64 } // how often they fell silent

func (m *muted) silence() { m.streams.Add(1) }

func (m *muted) option() grpc.DialOption {
	return grpc.WithChainStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
		s, err := streamer(ctx, desc, cc, method, opts...)
		if err != nil {
			return nil, err
		}
		return &mute{s, m, m.streams.Load()}, nil
	})
}

type mute struct {
	grpc.ClientStream
	m     *muted
	since int64
}

func (s *mute) RecvMsg(m any) error {
	for {
		if err := s.ClientStream.RecvMsg(m); err != nil || s.m.streams.Load() == s.since {
			return err
		}
	}
}

// expect fails unless err is want.
func expect(t testing.TB, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: %v, not %q", what, err, want)
	}
}
