package natslock

import (
	"context"
	"crypto/rand"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driverkit/kvline"
)

// A countedClient is a session with a connection of its own, as of another process. The
// calls of its store are counted by kind, where a write that was refused counts too.
type countedClient struct {
	driver.Session
	*store
	t *testing.T

	mu    sync.Mutex // guards what follows
	calls map[string]int
	sent  int // messages at the last take
}

func newCountedClient(t *testing.T, addr, bucket string) *countedClient {
	t.Helper()
	n := &countedClient{store: newStore(connect(t, addr), options{bucket: bucket}), t: t, calls: map[string]int{}}
	e := kvline.New("nats", n, driver.Volatile)
	t.Cleanup(func() { _ = e.Close() })
	s, err := e.Open(t.Context(), driver.SessionOptions{ID: rand.Text(), TTL: 10 * time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	n.Session = s
	return n
}

func (n *countedClient) count(call string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.calls[call]++
}

func (n *countedClient) Get(ctx context.Context, key string) (kvline.Value, error) {
	v, err := n.store.Get(ctx, key)
	n.count("Get")
	return v, err
}

func (n *countedClient) Put(ctx context.Context, key string, v kvline.Value, keep time.Duration) (uint64, error) {
	n.count("Put")
	return n.store.Put(ctx, key, v, keep)
}

// PutTelling is counted as what it is, a notice and a write.
func (n *countedClient) PutTelling(ctx context.Context, key string, v kvline.Value, keep time.Duration, address, text string) (uint64, error) {
	n.count("Put")
	n.count("Notify")
	return n.store.PutTelling(ctx, key, v, keep, address, text)
}

func (n *countedClient) Notify(address, text string) {
	n.count("Notify")
	n.store.Notify(address, text)
}

func (n *countedClient) Close() error { return n.store.Close() }

// take returns the calls since the last take, and how many messages the connection has
// sent for them.
func (n *countedClient) take() (calls map[string]int, messages int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	calls, messages = n.calls, int(n.js.Conn().Stats().OutMsgs)-n.sent
	n.calls, n.sent = map[string]int{}, n.sent+messages
	return calls, messages
}

// expect checks the calls since the last take. Each is one message, and there are so many
// questions beside them, which are not waited for in turn.
func (n *countedClient) expect(what string, want map[string]int, questions int) {
	n.t.Helper()
	calls, messages := n.take()
	sum := questions
	for _, of := range want {
		sum += of
	}
	if !maps.Equal(calls, want) || messages != sum {
		n.t.Errorf("%s costs %v in %d messages, not %v", what, calls, messages, want)
	}
}

// awaitRead waits until the line was read.
func (n *countedClient) awaitRead() {
	n.t.Helper()
	for begun := time.Now(); time.Since(begun) < time.Minute; time.Sleep(time.Millisecond) {
		n.mu.Lock()
		read := n.calls["Get"] > 0
		n.mu.Unlock()
		if read {
			return
		}
	}
	n.t.Fatal("the line was not read")
}

func (n *countedClient) enter(c driver.Claim) driver.Standing {
	n.t.Helper()
	st, err := n.Enter(n.t.Context(), c)
	if err != nil {
		n.t.Fatal(err)
	}
	return st
}

func (n *countedClient) leave(c driver.Claim) {
	n.t.Helper()
	if err := n.Leave(n.t.Context(), c); err != nil {
		n.t.Fatal(err)
	}
}

// turn waits for the claim's turn.
func (n *countedClient) turn(c driver.Claim, st driver.Standing) {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(n.t.Context(), time.Minute)
	defer cancel()
	for !st.Held {
		var err error
		if st, err = n.Await(ctx, c, st); err != nil || st.Gone {
			n.t.Fatalf("Await: %+v, %v", st, err)
		}
	}
}

func newClaim(name string, need, limit int) driver.Claim {
	return driver.Claim{ID: rand.Text(), Try: 1, Name: name, Need: need, Limit: limit, Queue: true}
}
