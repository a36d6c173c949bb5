package natslock

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driverkit"
	"github.com/pawl-go/pawl/driverkit/kvline"
	"github.com/pawl-go/pawl/drivertest"
	"github.com/pawl-go/pawl/internal/testserver"
)

func TestLawsOnOneServer(t *testing.T) {
	t.Parallel()
	laws(t, testserver.NATS(t).Addr())
}

func TestLawsOnThreeServers(t *testing.T) {
	t.Parallel()
	laws(t, testserver.NATSServers(t, 3, nil).Addrs()...)
}

// laws runs the suite. Every engine has a connection of its own, as another process
// would, and every case has its own bucket.
func laws(t *testing.T, addrs ...string) {
	var cases atomic.Int64
	var stores, sessions sync.Map // by engine, and by session
	open := func(t *testing.T, bucket string) driver.Engine {
		s := &delayingStore{store: newStore(connect(t, addrs...), options{bucket: bucket})}
		e := &notingEngine{kvline.New("nats", s, driver.Volatile), func(opened driver.Session) { sessions.Store(opened, s) }}
		stores.Store(e, s.store)
		return e
	}
	storeOf := func(e driver.Engine) *store {
		s, _ := stores.Load(e)
		return s.(*store)
	}
	drivertest.Run(t, drivertest.Harness{
		Open: func(t *testing.T) driver.Engine { return open(t, fmt.Sprint("case", cases.Add(1))) },
		Peer: func(t *testing.T, e driver.Engine) driver.Engine { return open(t, storeOf(e).options.bucket) },
		Clean: func(t *testing.T, e driver.Engine) error {
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			defer cancel()
			return expectEmpty(ctx, storeOf(e))
		},
		DelayEnter: func(_ *testing.T, s driver.Session) (deliver func() error) {
			on, _ := sessions.Load(s)
			return on.(*delayingStore).delay()
		},
	})
}

// A notingEngine tells of the sessions that are opened.
type notingEngine struct {
	*kvline.Engine
	note func(driver.Session)
}

func (e *notingEngine) Open(ctx context.Context, o driver.SessionOptions) (driver.Session, error) {
	s, err := e.Engine.Open(ctx, o)
	if err == nil {
		e.note(s)
	}
	return s, err
}

// A delayingStore can hold its next write back.
type delayingStore struct {
	*store
	next atomic.Pointer[delayedWrite]
}

// A delayedWrite is a write that reaches the server after its caller gave up.
type delayedWrite struct{ send func() }

func (s *delayingStore) Put(ctx context.Context, key string, v kvline.Value, keep time.Duration) (uint64, error) {
	d := s.next.Swap(nil)
	if d == nil {
		return s.store.Put(ctx, key, v, keep)
	}
	d.send = func() { _, _ = s.store.Put(context.WithoutCancel(ctx), key, v, keep) } // it may be refused
	return 0, driver.ErrUnreachable
}

func (s *delayingStore) delay() (deliver func() error) {
	d := &delayedWrite{}
	s.next.Store(d)
	return func() error {
		d.send()
		return nil
	}
}

// expectEmpty returns an error if the bucket keeps values. Lines in which all claims have
// expired are deleted by the server, some seconds later.
func expectEmpty(ctx context.Context, s *store) error {
	for {
		left, err := leftovers(ctx, s)
		if left == "" || err != nil {
			return err
		}
		if !driverkit.Pause(ctx, 100*time.Millisecond) {
			return errors.New(left)
		}
	}
}

// leftovers describes a value that is there.
func leftovers(ctx context.Context, s *store) (string, error) {
	keys, err := s.Keys(ctx, "")
	if err != nil {
		return "", err
	}
	for _, key := range keys {
		v, err := s.Get(ctx, key)
		if v.Data != nil || err != nil {
			return fmt.Sprintf("%s is left: %s", key, v.Data), err
		}
	}
	return "", nil
}

func connect(t testing.TB, addrs ...string) jetstream.JetStream {
	t.Helper()
	conn, err := nats.Connect(strings.Join(addrs, ","), nats.MaxReconnects(-1), nats.ReconnectWait(20*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	return js
}
