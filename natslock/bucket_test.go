package natslock

import (
	"errors"
	"fmt"
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

// A bucket is deleted by hand while a name is held. The holder is told, the next call
// makes another bucket, and tokens grow. A client that has not noticed cannot write into
// the new bucket what it knew of the old one.
func TestADeletedBucketIsMadeAnewAndTokensGrow(t *testing.T) {
	t.Parallel()
	addr := testserver.NATS(t).Addr()
	admin := connect(t, addr)
	one, two := pawl.New(New(connect(t, addr))), pawl.New(New(connect(t, addr)))
	defer one.Close()
	defer two.Close()
	var last uint64
	for range 20 { // so that the new bucket counts from far below
		last = lockOnce(t, two)
	}
	held, err := one.Mutex("name", pawl.WithTTL(3*time.Second)).Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := admin.DeleteStream(t.Context(), natsstore.StreamName(defaultBucket)); err != nil {
		t.Fatal(err)
	}
	next, err := two.Mutex("name").Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if next.Token() <= held.Token() || held.Token() <= last {
		t.Errorf("token %d after %d after %d", next.Token(), held.Token(), last)
	}
	<-held.Context().Done()
	if err := next.Err(); err != nil {
		t.Errorf("the second holder lost it: %v", err)
	}
	if err := held.Unlock(); err == nil {
		t.Error("Unlock of a lock that is gone succeeded")
	}
	if err := next.Unlock(); err != nil {
		t.Error(err)
	}
}

func lockOnce(t *testing.T, c *pawl.Client) uint64 {
	t.Helper()
	l, err := c.Mutex("name").Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Unlock(); err != nil {
		t.Fatal(err)
	}
	return l.Token()
}

// What a store remembers of a bucket that is gone is no revision of the next one, even
// where both have a message with the same number.
func TestARevisionOfADeletedBucketIsAConflict(t *testing.T) {
	t.Parallel()
	addr := testserver.NATS(t).Addr()
	old, fresh := newStore(connect(t, addr), options{bucket: "b"}), newStore(connect(t, addr), options{bucket: "b"})
	write := func(s *store, v kvline.Value) (uint64, error) { return s.Put(t.Context(), "line.x", v, 0) }
	first, err := write(old, kvline.Value{Data: []byte("one")})
	if err != nil {
		t.Fatal(err)
	}
	if err := old.js.DeleteStream(t.Context(), natsstore.StreamName("b")); err != nil {
		t.Fatal(err)
	}
	second, err := write(fresh, kvline.Value{Data: []byte("two")})
	if err != nil || second <= first {
		t.Fatal(first, second, err)
	}
	for range 2 { // at first it has not noticed
		if r, err := write(old, kvline.Value{Data: []byte("three"), Revision: first}); err == nil {
			t.Fatalf("written as %d over another bucket's value", r)
		}
	}
	if v, err := fresh.Get(t.Context(), "line.x"); err != nil || string(v.Data) != "two" {
		t.Errorf("%q, %v", v.Data, err)
	}
}

func TestABucketCannotBePurged(t *testing.T) {
	t.Parallel()
	js := connect(t, testserver.NATS(t).Addr())
	c := pawl.New(New(js))
	defer c.Close()
	held, err := c.Mutex("name").Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	stream, err := js.Stream(t.Context(), natsstore.StreamName(defaultBucket))
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Purge(t.Context()); err == nil {
		t.Error("purged")
	}
	if err := stream.DeleteMsg(t.Context(), stream.CachedInfo().State.LastSeq); err == nil {
		t.Error("a message was deleted")
	}
	if err := held.Unlock(); err != nil {
		t.Error(err)
	}
}

// In a bucket that is full no name is taken, and what is held can be prolonged and given
// back.
func TestAFullBucketLosesNothing(t *testing.T) {
	t.Parallel()
	js := connect(t, testserver.NATS(t).Addr())
	if err := lockOn(t, js, defaultBucket); err != nil { // makes the bucket
		t.Fatal(err)
	}
	stream := awaitNoMessage(t, js)
	config := stream.CachedInfo().Config
	config.MaxMsgs = 3
	if _, err := js.UpdateStream(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	const ttl = 4 * time.Second
	c := pawl.New(New(js), pawl.WithTTL(ttl))
	defer c.Close()
	var held []*pawl.Lease
	for i := range 2 {
		l, err := c.Mutex(fmt.Sprint("held", i)).Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, l)
	}
	fill(t, js)
	_, err := c.Mutex("another").Lock(t.Context())
	expectError(t, "Lock", err, pawl.ErrDenied, "maximum messages")
	time.Sleep(3 * ttl / 2) // they are prolonged meanwhile
	for _, l := range held {
		if l.Err() != nil {
			t.Error(l.Err())
		}
		if err := l.Unlock(); err != nil {
			t.Error(err)
		}
	}
	for { // the marks of their deletions stay for a second
		l, err := c.Mutex("another").Lock(t.Context())
		if err == nil {
			err = l.Unlock()
		}
		if err == nil {
			break
		}
		if !errors.Is(err, pawl.ErrDenied) {
			t.Fatal(err)
		}
	}
}

// awaitNoMessage waits until the bucket is empty: the marks of deletions stay for a second.
func awaitNoMessage(t *testing.T, js jetstream.JetStream) jetstream.Stream {
	t.Helper()
	stream, err := js.Stream(t.Context(), natsstore.StreamName(defaultBucket))
	if err != nil {
		t.Fatal(err)
	}
	for stream.CachedInfo().State.Msgs > 0 {
		time.Sleep(50 * time.Millisecond)
		if _, err := stream.Info(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	return stream
}

// fill writes values until there is no room.
func fill(t *testing.T, js jetstream.JetStream) {
	t.Helper()
	s := newStore(js, options{bucket: defaultBucket})
	for i := 0; ; i++ {
		if _, err := s.Put(t.Context(), fmt.Sprint("record.", i), kvline.Value{Data: []byte("x")}, 30*time.Second); err != nil {
			return
		}
	}
}

// A line is one message. Where it would be longer than a message can be, the next claim
// is refused and the others stay.
func TestALineThatIsTooLongIsRefused(t *testing.T) {
	t.Parallel()
	js := connect(t, testserver.NATS(t, "max_payload: 2KB").Addr())
	e := New(js)
	defer e.Close()
	s, err := e.Open(t.Context(), driver.SessionOptions{ID: "session", TTL: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	entered := 0
	for ; ; entered++ {
		c := driver.Claim{ID: fmt.Sprint("claim", entered), Try: 1, Name: "name", Need: 1, Limit: 1, Queue: true}
		if _, err = s.Enter(t.Context(), c); err != nil {
			break
		}
	}
	expectError(t, "Enter", err, nil, "longer than a message")
	if all, err := e.Line(t.Context(), "name"); err != nil || len(all) != entered || entered < 2 {
		t.Errorf("%d of %d in line, %v", len(all), entered, err)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// It is the user's own connection, and will not come back.
func TestAConnectionThatWasClosedIsNoOutage(t *testing.T) {
	t.Parallel()
	js := connect(t, testserver.NATS(t).Addr())
	c := pawl.New(New(js))
	defer c.Close()
	lockOnce(t, c)
	js.Conn().Close()
	_, err := c.Mutex("name").Lock(t.Context())
	if err == nil || errors.Is(err, pawl.ErrUnreachable) || !errors.Is(err, nats.ErrConnectionClosed) {
		t.Error(err)
	}
}
