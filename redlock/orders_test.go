package redlock_test

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/faultproxy"
	"github.com/pawl-go/pawl/redislock"
	"github.com/pawl-go/pawl/redislock/rueidis"
)

func seat(t *testing.T, e driver.Engine, id string, ttl time.Duration) driver.Session {
	t.Helper()
	s, err := e.Open(t.Context(), driver.SessionOptions{ID: id, TTL: ttl})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestServersThatAllLostTheirDataAreSilentForEveryOldLease(t *testing.T) {
	t.Parallel()
	f := newOwnField(t, 3, brief)
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

func TestAClientThatWasForgottenCannotVoteInAnotherQuorum(t *testing.T) {
	t.Parallel()
	const ttl = 4 * time.Second
	f := newField(t, 5, brief)
	direct := addrs(f.servers) // the new quorum reaches servers without the proxies
	three := open(t, f.hosts()[:3], f.query)
	defer three.Close()
	forgotten := seat(t, three, "forgotten", ttl)
	five := open(t, direct, f.query)
	defer five.Close()
	var s driver.Session
	until(t, 20*time.Second, "founded anew", func() bool {
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
	t.Errorf("a client of a quorum that is no more holds the name (token %d), and a client of the new one: %v (token %d)", old.Token, st.Held, st.Token)
}

func TestANoteCannotForgeAToken(t *testing.T) {
	t.Parallel()
	f := newField(t, 3, brief)
	e := open(t, f.hosts(), f.query)
	defer e.Close()
	s := seat(t, e, "s", 4*time.Second)
	c := driver.Claim{ID: "aa", Try: 1, Name: "name", Need: 1, Limit: driver.All, Note: "\x02\x031,7\x03"}
	first, err := s.Enter(t.Context(), c)
	if err != nil || !first.Held {
		t.Fatal(first, err)
	}
	again, err := s.Enter(t.Context(), c)
	if err != nil || again.Token != first.Token {
		t.Errorf("a repeated Enter answers token %d, %v; it was %d", again.Token, err, first.Token)
	}
}

func TestAFenceThatIsNoNumberIsAClearErrorAndLeftAlone(t *testing.T) {
	t.Parallel()
	f := newField(t, 3, brief)
	c := f.client(t, pawl.WithTTL(5*time.Second))
	unlock(t, lock(t, c, "name"))
	for i := range f.servers {
		f.at(t, i, "SET", f.key("\x01f"), "abc")
	}
	if _, err := c.Mutex("name").TryLock(t.Context()); err == nil || errors.Is(err, pawl.ErrHeld) || !strings.Contains(err.Error(), "not a number") {
		t.Errorf("TryLock says %v", err)
	}
	for i := range f.servers {
		if got, err := f.at(t, i, "GET", f.key("\x01f")).ToString(); got != "abc" {
			t.Errorf("node %d has %q, %v", i, got, err)
		}
	}
}

// A server that was a node before, or a clock that was set back, leaves a fence that no
// proposal reaches.
func TestTokensRiseWhereTheFenceIsAheadOfEveryClock(t *testing.T) {
	t.Parallel()
	f := newField(t, 3, brief)
	e := open(t, f.hosts(), f.query)
	defer e.Close()
	s := seat(t, e, "s", 5*time.Second)
	last := uint64(time.Now().Add(time.Hour).UnixMicro())
	for i := range f.servers {
		if err := f.at(t, i, "SET", f.key("\x01f"), strconv.FormatUint(last, 10)).Error(); err != nil {
			t.Fatal(err)
		}
	}
	for k := range 6 {
		kind := exclusive
		if k%3 == 2 {
			kind = reader
		}
		c := kind(fmt.Sprintf("%02x", k), "name")
		st := held(t, s, c)
		if st.Token <= last {
			t.Errorf("grant %d has token %d after %d", k, st.Token, last)
		}
		last = st.Token
		c.Try = 1 << 20 // whichever try it was
		if err := s.Leave(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
}

// Nobody has come to the name since a reader's life there was over, and another reader
// keeps it: the first asks again as it did before.
func TestAReaderWhoseLifeIsOverIsGrantedAnew(t *testing.T) {
	t.Parallel()
	const ttl = 6 * time.Second
	f := newField(t, 3, brief)
	e := open(t, f.hosts(), f.query)
	defer e.Close()
	s := seat(t, e, "s", ttl)
	c := reader("aa", "name")
	enters := func() (st driver.Standing) { // the same try, until it is answered
		t.Helper()
		until(t, 20*time.Second, "held", func() bool {
			var err error
			st, err = s.Enter(t.Context(), c)
			return err == nil && st.Held
		})
		return st
	}
	first, began := enters(), time.Now()
	held(t, s, reader("bb", "name"))
	for i := range f.servers {
		until(t, 20*time.Second, "held everywhere", func() bool {
			n, err := f.at(t, i, "HEXISTS", f.key("\x01hname"), c.ID).ToInt64()
			return err == nil && n == 1 || time.Since(began) > ttl // or it has died by itself
		})
		if err := f.at(t, i, "ZADD", f.key("\x01hname\x01l"), "XX", "1", c.ID).Error(); err != nil { // long past
			t.Fatal(err)
		}
	}
	if again := enters(); again.Token <= first.Token {
		t.Errorf("its life was over, and it holds again: %+v; the token was %d", again, first.Token)
	}
}

// enlisted opens a session on one server alone, as a voter of a list.
func (f *field) enlisted(t *testing.T, i int, id string) (driver.Session, driver.Voter) {
	t.Helper()
	client, err := f.direct(t, i)
	if err != nil {
		t.Fatal(err)
	}
	e := rueidis.New(client, redislock.WithPrefix(f.prefix))
	t.Cleanup(func() { e.Close() })
	s := seat(t, e, id, 20*time.Second)
	v := s.(driver.Voter)
	if _, err := v.Enlist(t.Context(), "list"); err != nil {
		t.Fatal(err)
	}
	return s, v
}

// Nobody has come to the name since, and another reader keeps it.
func TestAReaderWhoseLifeIsOverIsConfirmedNothing(t *testing.T) {
	t.Parallel()
	f := newField(t, 1, brief)
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
	for _, dead := range []bool{false, true} {
		if dead {
			f.at(t, 0, "ZADD", f.key("\x01hname\x01l"), "XX", "1", c.ID) // long past
		}
		if ok, err := v.Confirm(t.Context(), c, st.Token, st.Token); err != nil || ok == dead {
			t.Errorf("dead %t, confirmed %t, %v", dead, ok, err)
		}
	}
}

// One client sees a server that may vote again and is slow to say so; another does, the
// server votes, and is emptied once more.
func TestALateRejoinDoesNotLetAServerVoteThatWasEmptiedSince(t *testing.T) {
	t.Parallel()
	f := newField(t, 1, brief)
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

func TestAClockThatWasSetBackDoesNotSilenceANodeForEver(t *testing.T) {
	t.Parallel()
	f := newOwnField(t, 3, "max-ttl=2s")
	c := f.client(t, pawl.WithTTL(2*time.Second))
	unlock(t, lock(t, c, "name"))
	f.at(t, 0, "FLUSHALL")
	unlock(t, lock(t, c, "name")) // finds it out
	until(t, 30*time.Second, "enlisted", func() bool {
		n, err := f.at(t, 0, "HEXISTS", f.key("\x01q"), "since").ToInt64()
		return err == nil && n == 1
	})
	// What a clock that was a day ahead when the loss was noticed has left behind.
	f.at(t, 0, "HSET", f.key("\x01q"), "since", strconv.FormatInt(time.Now().Add(24*time.Hour).UnixMilli(), 10))
	until(t, 30*time.Second, "voting again", func() bool {
		unlock(t, lock(t, c, "name"))
		return f.votes(t, 0)
	})
}

// A server that came back with an older state shows a hold that was evicted.
func TestABeatAtANodeThatDoesNotVoteDoesNotCount(t *testing.T) {
	t.Parallel()
	const ttl = 6 * time.Second
	f := newSavedField(t, 3, brief)
	a := open(t, f.hosts(), f.query)
	defer a.Close()
	s := seat(t, a, "s", ttl)
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
	for i := range 2 { // an operator evicts it; server 3 is out of the operator's reach
		f.at(t, i, "DEL", f.key("name"))
	}
	y := driver.Claim{ID: "bb", Try: 1, Name: "name", Need: 1, Limit: 1}
	b := open(t, f.hosts(), f.query)
	defer b.Close()
	rival := seat(t, b, "rival", ttl)
	until(t, ttl/2, "held by the rival", func() bool { // one try gives way where a node is slow to grant and another refuses
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
	for began := time.Now(); time.Since(began) < 2*time.Second && out[0].Valid == 0; time.Sleep(20 * time.Millisecond) {
		_ = s.Beat(t.Context(), []driver.Claim{x}, out) // what was not learnt is not learnt
	}
	if out[0].Held {
		t.Errorf("the evicted claim was renewed for %v by a node that does not vote, while another holds it: %s", out[0].Valid, fmt.Sprint(out[0]))
	}
}
