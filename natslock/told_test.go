package natslock

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driverkit/kvline"
	"github.com/pawl-go/pawl/internal/testserver"
)

// It is the leaving one that is asked to enter it.
func TestLeaveIsNotHinderedByAClaimThatFitsIntoNoMessage(t *testing.T) {
	t.Parallel()
	addr := testserver.NATS(t, "max_payload: 8KB").Addr()
	open := func(id string) driver.Session {
		e := New(connect(t, addr))
		t.Cleanup(func() { e.Close() })
		s, err := e.Open(t.Context(), driver.SessionOptions{ID: id, TTL: 30 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	claim := func(id string) driver.Claim {
		return driver.Claim{ID: id, Try: 1, Name: "name", Need: 1, Limit: 1, Queue: true}
	}
	var line []driver.Session
	for i := range 18 {
		s := open(fmt.Sprint("session", i))
		if _, err := s.Enter(t.Context(), claim(fmt.Sprint("claim", i))); err != nil {
			t.Fatal(err)
		}
		line = append(line, s)
	}
	comes := open("comes")
	time.Sleep(500 * time.Millisecond) // its subscription is up
	c := claim("comes")
	c.Note = strings.Repeat("x", 6<<10)
	entered := make(chan error, 1)
	go func() {
		_, err := comes.Enter(t.Context(), c)
		entered <- err
	}()
	time.Sleep(20 * time.Millisecond)
	if err := line[2].Leave(t.Context(), claim("claim2")); err != nil {
		t.Errorf("Leave of who is asked: %v", err)
	}
	if err := <-entered; err == nil {
		t.Error("it fits into a message")
	}
}

func TestTheRightToNoticesThatComeWithAWriteIsNamed(t *testing.T) {
	t.Parallel()
	for _, which := range []string{"publish", "subscribe"} {
		t.Run(which, func(t *testing.T) {
			lists := map[string][]string{}
			for _, l := range []string{"publish", "subscribe"} {
				lists[l] = []string{"$JS.API.>", "$KV.pawl.>", "_INBOX.>", "pawl.pawl.>"}
				if l == which {
					lists[l] = []string{"$JS.API.>", "$KV.pawl.>", "_INBOX.>", "pawl.pawl.turn.>", "pawl.pawl.left.>"}
				}
			}
			server := restricted(t, lists["publish"], lists["subscribe"])
			admin := connect(t, as("root", server))
			held, err := pawl.New(New(admin)).Mutex("name", pawl.WithTTL(time.Minute)).Lock(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer held.Unlock()
			c := openURLs(t, as("ana", server))
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			_, err = c.Mutex("name").Lock(ctx)
			expectError(t, which, err, pawl.ErrDenied, "pawl.pawl.told.")
		})
	}
}

// A write with a notice ends as soon as one without, where the connection ends.
func TestAWriteWithANoticeEndsWithTheConnection(t *testing.T) {
	t.Parallel()
	for _, telling := range []bool{false, true} {
		t.Run(map[bool]string{false: "Put", true: "PutTelling"}[telling], func(t *testing.T) {
			server := testserver.NATS(t)
			js := connect(t, server.Addr())
			s := newStore(js, options{bucket: "team"})
			revision, err := s.Put(t.Context(), "line.name", kvline.Value{Data: []byte("x")}, time.Minute)
			if err != nil {
				t.Fatal(err)
			}
			server.Pause()
			defer server.Resume()
			done := make(chan time.Duration, 1)
			go func() {
				begun := time.Now()
				v := kvline.Value{Data: []byte("y"), Revision: revision}
				if telling {
					_, err = s.PutTelling(t.Context(), "line.name", v, time.Minute, "turn.s-h-X", "{}")
				} else {
					_, err = s.Put(t.Context(), "line.name", v, time.Minute)
				}
				done <- time.Since(begun)
			}()
			time.Sleep(200 * time.Millisecond)
			js.Conn().Close()
			if took := <-done; took > time.Second {
				t.Errorf("it ended after %v: %v", took, err)
			}
		})
	}
}

// A server that has no leader for the stream for a moment: the client tries again.
func TestAWriteWithANoticeIsTriedAgainAsOneWithout(t *testing.T) {
	t.Parallel()
	for _, telling := range []bool{false, true} {
		t.Run(map[bool]string{false: "Put", true: "PutTelling"}[telling], func(t *testing.T) {
			js := connect(t, testserver.NATS(t).Addr())
			s := newStore(js, options{bucket: "team"})
			revision, err := s.Put(t.Context(), "line.name", kvline.Value{Data: []byte("x")}, time.Minute)
			if err != nil {
				t.Fatal(err)
			}
			s.mu.Lock()
			s.foundAt = 1 // the bucket is not new
			s.mu.Unlock()
			if err := js.DeleteStream(t.Context(), "KV_team"); err != nil {
				t.Fatal(err)
			}
			begun := time.Now()
			v := kvline.Value{Data: []byte("y"), Revision: revision}
			if telling {
				_, err = s.PutTelling(t.Context(), "line.name", v, time.Minute, "turn.s-h-X", "{}")
			} else {
				_, err = s.Put(t.Context(), "line.name", v, time.Minute)
			}
			if took := time.Since(begun); took < 400*time.Millisecond {
				t.Errorf("it is given up after %v: %v", took, err)
			}
		})
	}
}
