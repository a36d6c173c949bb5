package zklock

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/faultproxy"
)

// patience bounds what must happen on a machine that is busy with other things.
const patience = 30 * time.Second

func newID() string {
	var b [16]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

func claim(need, limit int) driver.Claim {
	return driver.Claim{ID: newID(), Try: 1, Name: "job", Need: need, Limit: limit, Queue: true, Note: "test"}
}

func mutex() driver.Claim { return claim(1, 1) }

func tries(c driver.Claim) driver.Claim {
	c.Queue = false
	return c
}

// open opens a session that ends with the test.
func open(t testing.TB, e *Engine, ttl time.Duration) *session {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	s, err := e.Open(ctx, driver.SessionOptions{ID: newID(), TTL: ttl})
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	t.Cleanup(func() { s.Close(context.Background()) })
	return s.(*session)
}

func enter(t testing.TB, s *session, c driver.Claim) driver.Standing {
	t.Helper()
	st, err := s.Enter(t.Context(), c)
	if err != nil {
		t.Fatalf("Enter: %v", err)
	}
	return st
}

func hold(t testing.TB, s *session, c driver.Claim) driver.Standing {
	t.Helper()
	st := enter(t, s, c)
	if !st.Held {
		t.Fatalf("not held: %+v", st)
	}
	return st
}

func stand(t testing.TB, s *session, c driver.Claim) driver.Standing {
	t.Helper()
	st := enter(t, s, c)
	if st.Held || st.Gone {
		t.Fatalf("should wait: %+v", st)
	}
	return st
}

// persist repeats a call that got no answer, as the core does.
func persist(call func() error) error {
	for begun := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		err := call()
		if !errors.Is(err, driver.ErrUnreachable) && !errors.Is(err, context.DeadlineExceeded) || time.Since(begun) > patience {
			return err
		}
	}
}

// turn waits until c is held.
func turn(t testing.TB, s *session, c driver.Claim) driver.Standing {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		var st driver.Standing
		err := persist(func() (err error) {
			st, err = s.Await(ctx, c, driver.Standing{})
			return err
		})
		if err != nil || st.Gone {
			t.Fatalf("Await: %+v, %v", st, err)
		}
		if st.Held {
			return st
		}
	}
}

// turnLater waits beside the test until c is held, and then sends its standing. The channel
// is closed without one where turn has failed.
func turnLater(t testing.TB, s *session, c driver.Claim) <-chan driver.Standing {
	held := make(chan driver.Standing, 1)
	go func() {
		defer close(held)
		held <- turn(t, s, c)
	}()
	return held
}

func leave(t testing.TB, s *session, c driver.Claim) {
	t.Helper()
	if err := s.Leave(t.Context(), c); err != nil {
		t.Fatalf("Leave: %v", err)
	}
}

// listed returns the claims of a line.
func listed(t testing.TB, e *Engine, name string) []driver.Entry {
	t.Helper()
	var all []driver.Entry
	for en, err := range e.List(t.Context(), name) {
		if err != nil {
			t.Fatalf("List: %v", err)
		}
		all = append(all, en)
	}
	return all
}

// expectLine fails unless exactly these claims are listed, in this order.
func expectLine(t testing.TB, e *Engine, want ...driver.Claim) {
	t.Helper()
	got := listed(t, e, "job")
	same := len(got) == len(want)
	for i := range got {
		same = same && got[i].ID == want[i].ID && got[i].Try == want[i].Try
	}
	if !same {
		t.Fatalf("the line is %+v, not %+v", got, want)
	}
}

// through returns an engine whose every connection goes through a faulty proxy.
func through(t testing.TB, path string) (*Engine, *faultproxy.Proxy) {
	t.Helper()
	p := faultproxy.New(t, oneServer(t))
	e := connect(t, []string{p.Addr()}, WithPath(path))
	t.Cleanup(p.Heal) // the engine is closed before the proxy
	return e, p
}

// The numbers of ZooKeeper's requests.
const (
	opCreate  = 1
	opDelete  = 2
	opExists  = 3
	opGetData = 4
	opMulti   = 14
)

// asks matches requests of one kind that were sent since the last reply.
func asks(op int32) func([]byte) bool {
	return func(b []byte) bool {
		for len(b) >= 12 {
			n := int(binary.BigEndian.Uint32(b))
			if int32(binary.BigEndian.Uint32(b[8:])) == op {
				return true
			}
			if len(b) < 4+n {
				break
			}
			b = b[4+n:]
		}
		return false
	}
}

// quiet keeps the library from writing to the test's log.
type quiet struct{}

func (quiet) Printf(string, ...any) {}

// raw returns a plain connection to the node that all tests share.
func raw(t testing.TB) *zk.Conn {
	t.Helper()
	conn, _, err := zk.Connect([]string{oneServer(t)}, 10*time.Second, zk.WithLogInfo(false), zk.WithLogger(quiet{}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	return conn
}

// usedLine opens an engine and a session that has held and given back "job", so that the
// line's node is there, and a connection beside them.
func usedLine(t testing.TB) (*Engine, *session, *zk.Conn) {
	t.Helper()
	e := connect(t, []string{oneServer(t)}, WithPath(pathOf(t)))
	s := open(t, e, time.Minute)
	c := mutex()
	hold(t, s, c)
	leave(t, s, c)
	return e, s, raw(t)
}

// A counter counts the requests of the connections it makes, by kind.
type counter struct {
	mu  sync.Mutex // guards ops
	ops map[int32]int
}

func (n *counter) dial(network, addr string, timeout time.Duration) (net.Conn, error) {
	conn, err := net.DialTimeout(network, addr, timeout)
	if err != nil {
		return nil, err
	}
	return &counted{Conn: conn, n: n}, nil
}

// take returns what was counted since the last take, pings apart.
func (n *counter) take() (total int, ops map[int32]int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	ops, n.ops = n.ops, map[int32]int{}
	delete(ops, 11)
	for _, k := range ops {
		total += k
	}
	return total, ops
}

type counted struct {
	net.Conn
	n      *counter
	shaken bool
}

func (c *counted) Write(frame []byte) (int, error) {
	if c.shaken && len(frame) >= 12 {
		c.n.mu.Lock()
		if c.n.ops == nil {
			c.n.ops = map[int32]int{}
		}
		c.n.ops[int32(binary.BigEndian.Uint32(frame[8:]))]++
		c.n.mu.Unlock()
	}
	c.shaken = true
	return c.Conn.Write(frame)
}
