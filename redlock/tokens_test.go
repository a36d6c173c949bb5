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
)

// Without rivals the nodes grant the proposed token, and one round is enough.
func TestFewGrantsNeedASecondRound(t *testing.T) {
	t.Parallel()
	f := newCluster(t, 5, shortMaxTTL)
	e := open(t, addrs(f.servers), f.query)
	c := pawl.New(e, pawl.WithTTL(5*time.Second))
	t.Cleanup(func() { _, _ = c.Close(), e.Close() })
	const grants = 400
	for range grants {
		unlock(t, lock(t, c, "name"))
	}
	seconds := e.(interface{ SecondRounds() uint64 }).SecondRounds()
	t.Logf("%d of %d grants needed a second round", seconds, grants)
	if seconds > grants/20 {
		t.Errorf("%d of %d grants needed a second round, at most 5 %% should", seconds, grants)
	}
}

func TestANoteCannotForgeAToken(t *testing.T) {
	t.Parallel()
	f := newCluster(t, 3, shortMaxTTL)
	s := f.session(t, "s", 4*time.Second)
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
	f := newCluster(t, 3, shortMaxTTL)
	c := f.client(t, pawl.WithTTL(5*time.Second))
	unlock(t, lock(t, c, "name"))
	for i := range f.servers {
		f.at(t, i, "SET", f.key("\x01f"), "abc")
	}
	if _, err := c.Mutex("name").TryLock(t.Context()); err == nil || errors.Is(err, pawl.ErrHeld) || !strings.Contains(err.Error(), "not a number") {
		t.Errorf("TryLock returns %v", err)
	}
	for i := range f.servers {
		if got, err := f.at(t, i, "GET", f.key("\x01f")).ToString(); got != "abc" {
			t.Errorf("node %d has %q, %v", i, got, err)
		}
	}
}

// A server that was a node before, or a clock that was set back, leaves a fence above all
// proposals.
func TestTokensRiseWhereTheFenceIsAheadOfEveryClock(t *testing.T) {
	t.Parallel()
	f := newCluster(t, 3, shortMaxTTL)
	s := f.session(t, "s", 5*time.Second)
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
		c.Try = 1 << 20 // held may have raised it
		if err := s.Leave(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
}
