package redislock_test

import (
	"fmt"
	"testing"
	"time"

	redis "github.com/redis/rueidis"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/testserver"
	"github.com/pawl-go/pawl/redislock/rueidis"
)

// sessionAt opens a session of a client that has one server.
func sessionAt(t *testing.T, addr, id string) driver.Session {
	t.Helper()
	c, err := redis.NewClient(redis.ClientOption{InitAddress: []string{addr}, ForceSingleClient: true, DisableCache: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	e := rueidis.New(c)
	t.Cleanup(func() { _ = e.Close() })
	s, err := e.Open(t.Context(), driver.SessionOptions{ID: id, TTL: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func enter(t *testing.T, s driver.Session, c driver.Claim) driver.Standing {
	t.Helper()
	st, err := s.Enter(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return st
}

func leave(t *testing.T, s driver.Session, c driver.Claim) {
	t.Helper()
	if err := s.Leave(t.Context(), c); err != nil {
		t.Fatal(err)
	}
}

// A replica that knows a holder and a waiter is promoted. On the old master both end, and
// another client holds the name there and gives it back. Then the waiter's turn comes on
// the new master: its token must be above that of the other client, which arrived later
// and held earlier.
func TestAWaiterAtAPromotedReplicaHasALaterTokenThanTheLastHolder(t *testing.T) {
	t.Parallel()
	master := testserver.Redis(t)
	replica := testserver.RedisReplica(t, master.Addr())
	kinds := map[string]struct{ holds, waits, other driver.Claim }{}
	exclusive := driver.Claim{Need: 1, Limit: 1}
	writer, reader := driver.Claim{Need: driver.All, Limit: driver.All}, driver.Claim{Need: 1, Limit: driver.All}
	permits := driver.Claim{Need: 2, Limit: 3}
	for name, k := range map[string][3]driver.Claim{
		"mutex":             {exclusive, exclusive, exclusive},
		"writer by writer":  {writer, writer, writer},
		"reader by writer":  {writer, reader, writer},
		"writer by reader":  {reader, writer, writer},
		"permits by others": {permits, permits, permits},
	} {
		for i := range k {
			k[i].ID, k[i].Try, k[i].Name, k[i].Queue = fmt.Sprintf("%032x", len(kinds)*3+i+1), 1, name, true
		}
		kinds[name] = struct{ holds, waits, other driver.Claim }{k[0], k[1], k[2]}
	}
	old := sessionAt(t, master.Addr(), "session")
	for name, k := range kinds {
		if st := enter(t, old, k.holds); !st.Held {
			t.Fatalf("%s: not held", name)
		}
		if st := enter(t, old, k.waits); st.Held {
			t.Fatalf("%s: does not wait", name)
		}
	}
	promoted := newConsole(t, replica.Addr())
	until(t, 20*time.Second, "replicated", func() bool {
		for _, k := range kinds {
			if promoted.do("HEXISTS", "pawl:\x01h"+k.waits.Name, k.waits.ID) != "1" {
				return false
			}
		}
		return true
	})
	promoted.do("REPLICAOF", "NO", "ONE")
	next := sessionAt(t, replica.Addr(), "session")
	for name, k := range kinds {
		leave(t, old, k.waits) // in the place of its expiry
		leave(t, old, k.holds)
		last := enter(t, old, k.other)
		if !last.Held {
			t.Fatalf("%s: the other client does not hold", name)
		}
		leave(t, old, k.other)
		leave(t, next, k.holds)
		st := enter(t, next, k.waits) // repeated: the claim is let in by now
		if !st.Held || st.Token <= last.Token {
			t.Errorf("%s: %+v after a holder with token %d", name, st, last.Token)
		}
		if again := enter(t, next, k.waits); again.Token != st.Token {
			t.Errorf("%s: a repeated Enter returns token %d after %d", name, again.Token, st.Token)
		}
		out := make([]driver.Standing, 1)
		if err := next.Beat(t.Context(), []driver.Claim{k.waits}, out); err != nil || out[0].Token != st.Token {
			t.Errorf("%s: a beat returns %+v, %v after token %d", name, out[0], err, st.Token)
		}
	}
}
