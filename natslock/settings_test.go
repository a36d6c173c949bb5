package natslock

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driverkit/kvline"
	"github.com/pawl-go/pawl/internal/stalltest"
	"github.com/pawl-go/pawl/internal/testserver"
	"github.com/pawl-go/pawl/natslock/internal/natsstore"
)

// A bucket is changed by hand, while a name is held, so that it throws messages away: it
// looks as if the name were free. Clients that found the bucket before that let nobody in.
func TestABucketThatBeginsToThrowMessagesAwayLetsNobodyIn(t *testing.T) {
	t.Parallel()
	addr := testserver.NATS(t).Addr()
	for what, change := range map[string]func(*jetstream.StreamConfig){
		"number": func(c *jetstream.StreamConfig) { c.Discard, c.MaxMsgs = jetstream.DiscardOld, 1 },
		"size":   func(c *jetstream.StreamConfig) { c.Discard, c.MaxBytes = jetstream.DiscardOld, 500 },
		"age":    func(c *jetstream.StreamConfig) { c.MaxAge, c.Duplicates = 100*time.Millisecond, 100*time.Millisecond },
	} {
		for round := range 2 {
			t.Run(fmt.Sprint(what, round), func(t *testing.T) {
				t.Parallel()
				noSecondHolder(t, addr, fmt.Sprint(what, round), change)
			})
		}
	}
}

func noSecondHolder(t *testing.T, addr, bucket string, change func(*jetstream.StreamConfig)) {
	client := func() *pawl.Client {
		c := pawl.New(New(connect(t, addr), WithBucket(bucket)), pawl.WithTTL(30*time.Second))
		t.Cleanup(func() { c.Close() })
		lockOnce(t, c)
		return c
	}
	holder, rival, other := client(), client(), client()
	held := mustLock(t, holder, "held")
	admin := connect(t, addr)
	stream, err := admin.Stream(t.Context(), natsstore.StreamName(bucket))
	if err != nil {
		t.Fatal(err)
	}
	config := stream.CachedInfo().Config
	change(&config)
	if _, err := admin.UpdateStream(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	_, err = other.Mutex("other").TryLock(t.Context()) // its message displaces that of the held name
	expectError(t, "another name", err, nil, "configuration was changed")
	subject := strings.TrimSuffix(stream.CachedInfo().Config.Subjects[0], ">")
	for begun := time.Now(); ; time.Sleep(10 * time.Millisecond) { // the server looks for old messages now and then
		_, err := stream.GetLastMsgForSubject(t.Context(), subject+"line.held")
		if err != nil {
			break
		}
		if time.Since(begun) > time.Minute {
			t.Fatal("the message is still there")
		}
	}
	second, err := rival.Mutex("held").TryLock(t.Context())
	expectError(t, "the held name", err, nil, "configuration was changed")
	if second == nil || held.Err() != nil {
		return
	}
	begun := time.Now()
	<-held.Context().Done()
	t.Errorf("two holders for %v", time.Since(begun))
}

// The same with a claim that waits: what it does about its line that is not there must not
// make the name look as if it had been given back.
func TestAWaiterWhoseLineWasThrownAwayLetsNobodyIn(t *testing.T) {
	t.Parallel()
	addr := testserver.NATS(t).Addr()
	for what, call := range map[string]func(ctx context.Context, s driver.Session, c driver.Claim) error{
		"Beat": func(ctx context.Context, s driver.Session, c driver.Claim) error {
			return s.Beat(ctx, []driver.Claim{c}, make([]driver.Standing, 1))
		},
		"Await": func(ctx context.Context, s driver.Session, c driver.Claim) error {
			_, err := s.Await(ctx, c, driver.Standing{Ahead: 1, Pause: time.Nanosecond})
			return err
		},
		"Leave": func(ctx context.Context, s driver.Session, c driver.Claim) error { return s.Leave(ctx, c) },
		"Close": func(ctx context.Context, s driver.Session, _ driver.Claim) error { return s.Close(ctx) },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			session := func() driver.Session {
				s := clusterSession(t, newEngine(newStore(connect(t, addr), options{bucket: what})), longTTL)
				c := queues("before")
				mustHold(t, s, c)
				if err := s.Leave(t.Context(), c); err != nil {
					t.Fatal(err)
				}
				return s
			}
			holder, waiter, rival, other := session(), session(), session(), session()
			mustHold(t, holder, queues("held"))
			waits := queues("held")
			if st, err := waiter.Enter(t.Context(), waits); err != nil || st.Held {
				t.Fatalf("Enter: %+v, %v", st, err)
			}
			stream, err := connect(t, addr).Stream(t.Context(), natsstore.StreamName(what))
			if err != nil {
				t.Fatal(err)
			}
			config := stream.CachedInfo().Config
			config.Discard, config.MaxMsgs = jetstream.DiscardOld, 1
			if _, err := connect(t, addr).UpdateStream(t.Context(), config); err != nil {
				t.Fatal(err)
			}
			_, err = other.Enter(t.Context(), queues("other")) // its message displaces that of the held name
			expectError(t, "another name", err, nil, "configuration was changed")
			_ = call(t.Context(), waiter, waits)
			again := waits
			again.Try++
			for who, enter := range map[string]func() (driver.Standing, error){
				"the waiter": func() (driver.Standing, error) { return waiter.Enter(t.Context(), again) },
				"a rival":    func() (driver.Standing, error) { return rival.Enter(t.Context(), queues("held")) },
			} {
				if st, err := enter(); err == nil && st.Held {
					t.Errorf("%s holds too: %+v", who, st)
				}
			}
		})
	}
}

// rivals returns stores at the leader of a cluster's bucket, and at another member.
func rivals(t *testing.T) (leader, follower *store) {
	c := testserver.NATSServers(t, 3, nil)
	clusterClient(t, clusterTTL, c.Addrs()...) // it makes the bucket
	first := c.Leader(testStream)
	leader, follower = storeOn(t, c, first), storeOn(t, c, (first+1)%3)
	t.Cleanup(func() { leader.Close(); follower.Close() })
	askBoth(t, leader, follower)
	return leader, follower
}

// askBoth makes the stores find the bucket and see how it is.
func askBoth(t *testing.T, leader, follower *store) {
	t.Helper()
	for _, s := range []*store{leader, follower} {
		if _, err := s.Now(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
	}
}

// allowDirect makes a bucket one at which every member may answer reads, and both stores
// see that.
func allowDirect(t *testing.T, leader, follower *store) {
	t.Helper()
	stream, err := leader.js.Stream(t.Context(), testStream)
	if err != nil {
		t.Fatal(err)
	}
	config := stream.CachedInfo().Config
	config.AllowDirect = true
	if _, err := leader.js.UpdateStream(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	askBoth(t, leader, follower)
}

// Members answer reads from what they have, which may be old.
func TestABucketThatAllowsDirectReadsIsReadAtItsLeader(t *testing.T) {
	t.Parallel()
	leader, follower := rivals(t)
	allowDirect(t, leader, follower)
	old, last := 0, uint64(0)
	const writes = 100
	for i := range writes {
		var err error
		if last, err = leader.Put(t.Context(), "line.x", kvline.Value{Data: fmt.Append(nil, i), Revision: last}, 0); err != nil {
			t.Fatal(err)
		}
		v, err := follower.Get(t.Context(), "line.x")
		if err != nil {
			t.Fatal(err)
		}
		if v.Revision < last {
			old++
		}
	}
	if old > 0 {
		t.Errorf("%d of %d reads were old", old, writes)
	}
}

// A waiter is at a member that has not applied its own Enter yet, and looks at its line.
func TestABucketThatAllowsDirectReadsLosesNoPlace(t *testing.T) {
	t.Parallel()
	leader, follower := rivals(t)
	allowDirect(t, leader, follower)
	holder, waiter := clusterSession(t, newEngine(leader), longTTL), clusterSession(t, newEngine(follower), longTTL)
	lost := 0
	const rounds = 50
	for i := range rounds {
		name := fmt.Sprint("name", i)
		mustHold(t, holder, queues(name))
		waits := queues(name)
		st, err := waiter.Enter(t.Context(), waits)
		if err != nil || st.Held {
			t.Fatalf("Enter: %+v, %v", st, err)
		}
		st.Pause = time.Nanosecond // it looks at once
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		if st, err = waiter.Await(ctx, waits, st); err == nil && st.Gone {
			lost++
		}
		cancel()
	}
	if lost > 0 {
		t.Errorf("%d of %d places are said to be gone", lost, rounds)
	}
}

// The servers cannot tell a deletion by hand from one of ours. docs/nats.md says what
// follows: another holds at once, with a higher token, and the first is told at a beat.
func TestALineThatIsDeletedByHandIsNoticedAtTheNextBeat(t *testing.T) {
	t.Parallel()
	const ttl = 6 * time.Second
	addr := testserver.NATS(t).Addr()
	admin := connect(t, addr)
	one, two := pawl.New(New(connect(t, addr)), pawl.WithTTL(ttl)), pawl.New(New(connect(t, addr)))
	defer one.Close()
	defer two.Close()
	held := mustLock(t, one, "held")
	stream, err := admin.Stream(t.Context(), natsstore.StreamName(defaultBucket))
	if err != nil {
		t.Fatal(err)
	}
	subject := strings.TrimSuffix(stream.CachedInfo().Config.Subjects[0], ">") + "line.held"
	if _, err := admin.PublishMsg(t.Context(), &nats.Msg{Subject: subject, Header: nats.Header{operation: {deleted}}}); err != nil {
		t.Fatal(err)
	}
	begun, stalls := time.Now(), stalltest.Start()
	next := mustLock(t, two, "held")
	if next.Token() <= held.Token() {
		t.Errorf("token %d after %d", next.Token(), held.Token())
	}
	<-held.Context().Done()
	if took := time.Since(begun) - stalls.End(); took > 2*ttl/3 { // the deadline is later
		t.Errorf("told after %v, with a TTL of %v", took, ttl)
	}
	if err := next.Err(); err != nil {
		t.Error(err)
	}
}

// The question beside a write got no answer: the next call about the key asks again.
func TestAKeyIsNotUsedBeforeTheBucketWasAskedFor(t *testing.T) {
	t.Parallel()
	js := connect(t, testserver.NATS(t).Addr())
	s := newStore(js, options{bucket: defaultBucket})
	revision, err := s.Put(t.Context(), "line.x", kvline.Value{Data: []byte("x")}, 0)
	if err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.checkFit(ended, s.found, "line.x"); err == nil {
		t.Fatal("answered after its ctx had ended")
	}
	stream, err := js.Stream(t.Context(), natsstore.StreamName(defaultBucket))
	if err != nil {
		t.Fatal(err)
	}
	config := stream.CachedInfo().Config
	config.Discard = jetstream.DiscardOld
	if _, err := js.UpdateStream(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	_, err = s.Put(t.Context(), "line.x", kvline.Value{Data: []byte("y"), Revision: revision}, 0)
	expectError(t, "Put", err, nil, "configuration was changed")
	config.Discard = jetstream.DiscardNew
	if _, err := js.UpdateStream(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	if v, err := s.Get(t.Context(), "line.x"); err != nil || s.isUnsure("line.x") {
		t.Errorf("%q, %v: still unsure", v.Data, err)
	}
}

// A silentStream does not answer questions for its settings.
type silentStream struct{ jetstream.Stream }

func (silentStream) Info(context.Context, ...jetstream.StreamInfoOpt) (*jetstream.StreamInfo, error) {
	return nil, nats.ErrTimeout
}

// The right to ask for the bucket's settings is taken away: the write beside the question is
// stored. A refusal would say that nothing was, and nobody would leave the line.
func TestAWriteThatWasStoredIsNotSaidToBeRefused(t *testing.T) {
	t.Parallel()
	server := restricted(t, []string{"$JS.API.STREAM.MSG.GET.KV_pawl", "$KV.pawl.>"}, []string{"_INBOX.>"})
	root := newStore(connect(t, as("root", server)), options{bucket: defaultBucket})
	found, err := root.bucket(t.Context(), true)
	if err != nil {
		t.Fatal(err)
	}
	s := newStore(connect(t, as("ana", server)), options{bucket: defaultBucket})
	s.found = &bucket{stream: silentStream{found.stream}, subject: found.subject, base: found.base}
	conn, asks := s.js.Conn(), api+"STREAM.INFO."+natsstore.StreamName(defaultBucket)
	if err := errors.Join(conn.Publish(asks, nil), conn.FlushTimeout(clusterTimeout)); err != nil || denial(conn, asks) == nil {
		t.Fatalf("%v, %v", err, conn.LastError())
	}
	_, err = s.Put(t.Context(), "line.x", kvline.Value{Data: []byte("x")}, 0)
	expectError(t, "Put", err, driver.ErrUnreachable)
	if errors.Is(err, driver.ErrDenied) {
		t.Error(err)
	}
	if v, err := root.Get(t.Context(), "line.x"); string(v.Data) != "x" {
		t.Errorf("%q, %v: it was not stored, and the test tests nothing", v.Data, err)
	}
}
