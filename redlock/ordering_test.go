package redlock_test

import (
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/faultproxy"
	"github.com/pawl-go/pawl/redislock"
	"github.com/pawl-go/pawl/redislock/rueidis"
)

func TestServersThatAllLostTheirDataDoNotVoteDuringOldLeases(t *testing.T) {
	t.Parallel()
	f := newOwnCluster(t, 3, shortMaxTTL)
	l := lock(t, f.client(t, pawl.WithTTL(4*time.Second)), "name")
	for _, s := range f.servers {
		s.Kill()
	}
	for _, s := range f.servers {
		s.Restart() // without its data
	}
	ctx := t.Context()
	c, err := pawl.Open(ctx, f.url(f.hosts()...), pawl.WithTTL(4*time.Second))
	if err != nil {
		return
	}
	defer c.Close()
	next, err := c.Mutex("name").TryLock(ctx)
	if err == nil && l.Err() == nil {
		t.Errorf("two hold the name: until %v and %v", time.Until(l.Deadline()), time.Until(next.Deadline()))
	}
}

func TestAClientOfAnOldQuorumGetsNoVotesOfTheNewOne(t *testing.T) {
	t.Parallel()
	const ttl = 4 * time.Second
	f := newCluster(t, 5, shortMaxTTL)
	direct := addrs(f.servers) // the new quorum reaches servers without the proxies
	three := open(t, f.hosts()[:3], f.query)
	defer three.Close()
	forgotten := openSession(t, three, "forgotten", ttl)
	five := open(t, direct, f.query)
	defer five.Close()
	var s driver.Session
	until(t, 20*time.Second, "started again", func() bool {
		for i := range f.servers {
			f.at(t, i, "DEL", f.key("\x01q")) // as docs/redlock.md says, but one client was not stopped
		}
		var err error
		s, err = five.Open(t.Context(), driver.SessionOptions{ID: "new", TTL: ttl})
		return err == nil
	})
	f.proxies[2].BlackHole(faultproxy.Both) // the old one has servers 1 and 2
	old, err := forgotten.Enter(t.Context(), driver.Claim{ID: "aa", Try: 1, Name: "name", Need: 1, Limit: 1})
	if err != nil || !old.Held {
		return // right
	}
	st, err := s.Enter(t.Context(), driver.Claim{ID: "bb", Try: 1, Name: "name", Need: 1, Limit: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Errorf("a client of the old quorum holds the name (token %d), and a client of the new one: %v (token %d)", old.Token, st.Held, st.Token)
}

// A reader's hold has expired, no request has removed it since, and another reader keeps
// the name in use. The first reader then repeats its Enter.
func TestAnExpiredReaderIsGrantedAnew(t *testing.T) {
	t.Parallel()
	const ttl = 6 * time.Second
	f := newCluster(t, 3, shortMaxTTL)
	s := f.session(t, "s", ttl)
	c := reader("aa", "name")
	enters := func() (st driver.Standing) { // repeats the same try until it is answered
		t.Helper()
		until(t, 20*time.Second, "held", func() bool {
			var err error
			st, err = s.Enter(t.Context(), c)
			return err == nil && st.Held
		})
		return st
	}
	first, start := enters(), time.Now()
	held(t, s, reader("bb", "name"))
	for i := range f.servers {
		until(t, 20*time.Second, "held everywhere", func() bool {
			n, err := f.at(t, i, "HEXISTS", f.key("\x01hname"), c.ID).ToInt64()
			return err == nil && n == 1 || time.Since(start) > ttl // or it has expired by itself
		})
		if err := f.at(t, i, "ZADD", f.key("\x01hname\x01l"), "XX", "1", c.ID).Error(); err != nil { // long past
			t.Fatal(err)
		}
	}
	if again := enters(); again.Token <= first.Token {
		t.Errorf("it had expired, and it holds again: %+v; the token was %d", again, first.Token)
	}
}

// enlisted opens a session on a single server and enlists it for a quorum.
func (f *cluster) enlisted(t *testing.T, i int, id string) (driver.Session, driver.Voter) {
	t.Helper()
	client, err := f.direct(t, i)
	if err != nil {
		t.Fatal(err)
	}
	e := rueidis.New(client, redislock.WithPrefix(f.prefix))
	t.Cleanup(func() { e.Close() })
	s := openSession(t, e, id, 20*time.Second)
	v := s.(driver.Voter)
	if _, err := v.Enlist(t.Context(), "list"); err != nil {
		t.Fatal(err)
	}
	return s, v
}

// The expired hold was not removed yet, and another reader keeps the name in use.
func TestAnExpiredReaderGetsNoConfirmation(t *testing.T) {
	t.Parallel()
	f := newCluster(t, 1, shortMaxTTL)
	s, v := f.enlisted(t, 0, "s")
	if err := v.Rejoin(t.Context(), 1, 1); err != nil {
		t.Fatal(err)
	}
	c := reader("aa", "name")
	st, err := s.Enter(t.Context(), c)
	if err != nil || !st.Held {
		t.Fatal(st, err)
	}
	if st, err := s.Enter(t.Context(), reader("bb", "name")); err != nil || !st.Held {
		t.Fatal(st, err)
	}
	for _, expired := range []bool{false, true} {
		if expired {
			f.at(t, 0, "ZADD", f.key("\x01hname\x01l"), "XX", "1", c.ID) // long past
		}
		if ok, err := v.Confirm(t.Context(), c, st.Token, st.Token); err != nil || ok == expired {
			t.Errorf("expired %t, confirmed %t, %v", expired, ok, err)
		}
	}
}

// Two clients see a server that may vote again. One lets it vote, the server is emptied
// once more, and then the Rejoin of the other arrives.
func TestALateRejoinDoesNotLetAServerVoteThatWasEmptiedSince(t *testing.T) {
	t.Parallel()
	f := newCluster(t, 1, shortMaxTTL)
	_, slow := f.enlisted(t, 0, "slow")
	_, other := f.enlisted(t, 0, "other")
	if err := other.Rejoin(t.Context(), 1, 1); err != nil {
		t.Fatal(err)
	}
	if err := f.at(t, 0, "DEL", f.key("\x01q")).Error(); err != nil {
		t.Fatal(err)
	}
	f.enlisted(t, 0, "next")
	if err := slow.Rejoin(t.Context(), 1, 2); !errors.Is(err, driver.ErrConflict) {
		t.Errorf("%v, not ErrConflict", err)
	}
	if f.votes(t, 0) {
		t.Error("a server votes that was just emptied")
	}
}

func TestAClockThatWasSetBackDoesNotSilenceANodeForever(t *testing.T) {
	t.Parallel()
	f := newOwnCluster(t, 3, "max-ttl=2s")
	c := f.client(t, pawl.WithTTL(2*time.Second))
	unlock(t, lock(t, c, "name"))
	f.at(t, 0, "FLUSHALL")
	unlock(t, lock(t, c, "name")) // finds that server 0 does not vote
	until(t, 30*time.Second, "enlisted", func() bool {
		n, err := f.at(t, 0, "HEXISTS", f.key("\x01q"), "since").ToInt64()
		return err == nil && n == 1
	})
	// As if the clock had been a day ahead when the loss was noticed.
	f.at(t, 0, "HSET", f.key("\x01q"), "since", strconv.FormatInt(time.Now().Add(24*time.Hour).UnixMilli(), 10))
	until(t, 30*time.Second, "voting again", func() bool {
		unlock(t, lock(t, c, "name"))
		return f.votes(t, 0)
	})
}

// A server that restarted with an older state has a hold that was evicted.
func TestABeatAtANodeThatDoesNotVoteDoesNotCount(t *testing.T) {
	t.Parallel()
	const ttl = 6 * time.Second
	f := newSavedCluster(t, 3, shortMaxTTL)
	s := f.session(t, "s", ttl)
	x := driver.Claim{ID: "aa", Try: 1, Name: "name", Need: 1, Limit: 1}
	if st, err := s.Enter(t.Context(), x); err != nil || !st.Held {
		t.Fatal(st, err)
	}
	until(t, 5*time.Second, "held everywhere", func() bool {
		for i := range f.servers {
			if n, _ := f.at(t, i, "EXISTS", f.key("name")).ToInt64(); n == 0 {
				return false
			}
		}
		return true
	})
	if err := f.at(t, 0, "SAVE").Error(); err != nil {
		t.Fatal(err)
	}
	for i := range 2 { // an operator evicts it, without server 2
		f.at(t, i, "DEL", f.key("name"))
	}
	y := driver.Claim{ID: "bb", Try: 1, Name: "name", Need: 1, Limit: 1}
	rival := f.session(t, "rival", ttl)
	until(t, ttl/2, "held by the rival", func() bool { // one try may lose if a node is slow to grant and another refuses
		st, err := rival.Enter(t.Context(), y)
		if err != nil {
			t.Fatal(err)
		}
		y.Try++
		return st.Held
	})
	f.servers[0].Kill()
	f.servers[0].Restart() // with the snapshot
	out := make([]driver.Standing, 1)
	for start := time.Now(); time.Since(start) < 2*time.Second && out[0].Valid == 0; time.Sleep(20 * time.Millisecond) {
		_ = s.Beat(t.Context(), []driver.Claim{x}, out) // out says what is known
	}
	if out[0].Held {
		t.Errorf("the evicted claim was renewed for %v by a node that does not vote, while another holds it: %s", out[0].Valid, fmt.Sprint(out[0]))
	}
}
