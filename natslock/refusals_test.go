package natslock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driverkit/kvline"
	"github.com/pawl-go/pawl/internal/testserver"
	"github.com/pawl-go/pawl/natslock/internal/natsstore"
)

// storeAt returns a store that is connected to the first of these servers.
func storeAt(t *testing.T, addrs ...string) *store {
	t.Helper()
	config := nats.GetDefaultOptions()
	config.NoRandomize = true
	for _, addr := range addrs {
		config.Servers = append(config.Servers, "nats://"+addr)
	}
	s, err := dial(t.Context(), natsstore.Settings{Config: config, Bucket: testBucket})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// A server of a cluster that has no JetStream passes requests on to those that have it. While
// none of these is there, it says at once that nobody answers.
func TestAMemberWithoutJetStreamWaitsForTheOthers(t *testing.T) {
	t.Parallel()
	c := testserver.NATSServers(t, 3, nil)
	without := c.Join()
	s := clusterSession(t, newEngine(storeAt(t, without.Addr())), longTTL)
	held := queues("name")
	mustHold(t, s, held)
	for _, m := range c.Members {
		m.Kill()
	}
	late := pawl.New(newEngine(storeAt(t, without.Addr())))
	defer late.Close()
	_, err := late.Mutex("other").TryLock(t.Context())
	expectError(t, "a client that begins", err, pawl.ErrUnreachable)
	calls := map[string]error{
		"Leave": s.Leave(t.Context(), held),
		"Beat":  s.Beat(t.Context(), []driver.Claim{held}, make([]driver.Standing, 1)),
	}
	_, calls["Enter"] = s.Enter(t.Context(), queues("another"))
	for what, err := range calls {
		expectError(t, what, err, driver.ErrUnreachable)
	}
	for _, m := range c.Members {
		m.Restart()
	}
	c.Await()
	for begun := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		err := s.Leave(t.Context(), held)
		if err == nil || errors.Is(err, driver.ErrGone) { // the first one may have arrived
			return
		}
		if !errors.Is(err, driver.ErrUnreachable) || time.Since(begun) > clusterTimeout {
			t.Fatalf("Leave: %v", err)
		}
	}
}

// Storage that is full is no outage: to wait for it does not help.
func TestStorageThatIsFullIsARefusal(t *testing.T) {
	t.Parallel()
	limit := func(change func(*jetstream.StreamConfig)) func(*testing.T) jetstream.JetStream {
		return func(t *testing.T) jetstream.JetStream {
			js := connect(t, testserver.NATS(t).Addr())
			if err := lockOn(t, js, defaultBucket); err != nil { // makes the bucket
				t.Fatal(err)
			}
			stream, err := js.Stream(t.Context(), natsstore.StreamName(defaultBucket))
			if err != nil {
				t.Fatal(err)
			}
			config := stream.CachedInfo().Config
			change(&config)
			if _, err := js.UpdateStream(t.Context(), config); err != nil {
				t.Fatal(err)
			}
			return js
		}
	}
	for what, f := range map[string]struct {
		js   func(*testing.T) jetstream.JetStream
		says string
	}{
		"messages of the bucket": {limit(func(c *jetstream.StreamConfig) { c.MaxMsgs = 5 }), "maximum messages"},
		"bytes of the bucket":    {limit(func(c *jetstream.StreamConfig) { c.MaxBytes = 4 << 10 }), "maximum bytes"},
		"bytes of the account": {func(t *testing.T) jetstream.JetStream {
			return connect(t, testserver.NATS(t, "accounts { A: { users: [{user: ana, password: word}], jetstream: {max_file: 16K} } }", "no_auth_user: ana").Addr())
		}, "resource limits exceeded for account"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			js := f.js(t)
			c := pawl.New(New(js))
			defer c.Close()
			lockOnce(t, c)
			awaitNoMessage(t, js)
			fill(t, js)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			_, err := c.Mutex("another").Lock(ctx)
			expectError(t, "Lock", err, pawl.ErrDenied, f.says)
			if ctx.Err() != nil {
				t.Error("it waited for room")
			}
		})
	}
}

// A server whose queue is full says so, and will have room in a moment.
func TestAServerThatHasTooManyRequestsIsAskedAgain(t *testing.T) {
	t.Parallel()
	server := testserver.NATSWith(t, "jetstream { store_dir: data, max_buffered_msgs: 4 }")
	c := pawl.New(New(connect(t, server.Addr())), pawl.WithTTL(time.Minute))
	defer c.Close()
	lockOnce(t, c)
	const names = 60
	errs := make([]error, names)
	var all sync.WaitGroup
	for i := range names {
		all.Go(func() {
			l, err := c.Mutex(fmt.Sprint("name", i)).Lock(t.Context())
			if err == nil {
				err = l.Unlock()
			}
			errs[i] = err
		})
	}
	all.Wait()
	failed, first := 0, error(nil)
	for _, err := range errs {
		if err != nil {
			failed, first = failed+1, err
		}
	}
	if failed > 0 {
		t.Errorf("%d of %d free names could not be locked: %v", failed, names, first)
	}
}

func TestListReadsTheNamesOfLocksAndNoRecords(t *testing.T) {
	t.Parallel()
	js := connect(t, testserver.NATS(t).Addr())
	e := New(js)
	defer e.Close()
	s := clusterSession(t, e, longTTL)
	for i := range 5 {
		mustHold(t, s, queues(fmt.Sprint("name", i)))
	}
	list := func() (bytes uint64) {
		before, shown := js.Conn().Stats().InBytes, 0
		for _, err := range e.List(t.Context(), "") {
			if err != nil {
				t.Fatal(err)
			}
			shown++
		}
		if shown != 5 {
			t.Errorf("List shows %d locks", shown)
		}
		return js.Conn().Stats().InBytes - before
	}
	few := list()
	store := newStore(js, options{bucket: defaultBucket})
	for i := range 500 {
		if _, err := store.Put(t.Context(), fmt.Sprint("record.", i), kvline.Value{Data: []byte("x")}, 0); err != nil {
			t.Fatal(err)
		}
	}
	if many := list(); many > 2*few {
		t.Errorf("List reads %d bytes where there are 500 records, and %d where there are none", many, few)
	}
}

// The caller has no patience, which says nothing of the server.
func TestACallersOwnDeadlineMovesNobodyOn(t *testing.T) {
	t.Parallel()
	c := testserver.NATSServers(t, 3, nil)
	s := storeAt(t, c.Addrs()...)
	if _, err := s.Put(t.Context(), "record.x", kvline.Value{Data: []byte("x")}, 0); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Microsecond)
		if _, err := s.Get(ctx, "record.x"); err == nil {
			t.Fatal("answered within a microsecond")
		}
		cancel()
		s.mu.Lock()
		if s.unheard != 0 {
			s.unheard = s.unheard.Add(-2 * cutOffAfter)
		}
		s.mu.Unlock()
	}
	if err := s.conn.FlushTimeout(clusterTimeout); err != nil {
		t.Log(err) // it is being replaced
	}
	if n := s.conn.Stats().Reconnects; n > 0 || !s.conn.IsConnected() {
		t.Errorf("the connection was given up, and made anew %d times", n)
	}
}

// A cluster that is being started lacks a server for a replica of the bucket, which is an
// outage: it does not last.
func TestABucketThatLacksAServerIsNoRefusal(t *testing.T) {
	t.Parallel()
	var ports [3]string
	for i := range ports {
		ports[i] = fmt.Sprintf("127.0.0.1:%d", testserver.FreePort(t))
	}
	member := func(i int) *testserver.Server {
		return testserver.NATSMember(t, fmt.Sprint("member", i), "jetstream { store_dir: data }",
			fmt.Sprintf(`cluster { name: c, listen: "%s", routes: ["nats://%s", "nats://%s"] }`, ports[i], ports[(i+1)%3], ports[(i+2)%3]))
	}
	first, _ := member(0), member(1)
	locks := pawl.New(newEngine(storeAt(t, first.Addr())))
	defer locks.Close()
	m := locks.Mutex("name")
	_, err := m.TryLock(t.Context())
	expectError(t, "without the server", err, pawl.ErrUnreachable, "no suitable peers")
	member(2)
	for begun := time.Now(); err != nil; _, err = m.TryLock(t.Context()) {
		if expectError(t, "until the server is known", err, pawl.ErrUnreachable); t.Failed() || time.Since(begun) > time.Minute {
			t.Fatal(err)
		}
	}
}
