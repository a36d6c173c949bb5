package etcdlock

import (
	"context"
	"slices"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/testserver"
)

// etcd PR#11364, #16396: two mutexes of one session both held.
func TestClaimsOfOneSessionExcludeEachOther(t *testing.T) {
	t.Parallel()
	e := engine(t, []string{sharedEtcd(t).Addr()})
	s := open(t, e, longTTL)
	one, two := mutex("name"), mutex("name")
	hold(t, s, one)
	st := wait(t, s, two)
	if st.Token != 0 { // etcd#12017: a waiter was taken for the owner
		t.Errorf("a waiter has token %d", st.Token)
	}
	if st := enter(t, s, tries(mutex("name"))); st.Held {
		t.Error("a third claim of the same session holds")
	}
	leave(t, s, one)
	if st, err := until(t.Context(), s, two, st); err != nil || !st.Held || st.Token == 0 {
		t.Errorf("Await: %+v, %v", st, err)
	}
}

// etcd's own TryLock enters the line and leaves it, and blocks others in between.
func TestABusyTryWritesNothing(t *testing.T) {
	t.Parallel()
	e := engine(t, []string{testserver.Etcd(t).Addr()})
	s := open(t, e, longTTL)
	revision := func() int64 {
		got, err := clientOf(e).Get(t.Context(), "x", clientv3.WithCountOnly())
		if err != nil {
			t.Fatal(err)
		}
		return got.Header.Revision
	}
	reader := mutex("shared")
	reader.Limit = driver.All
	unit := mutex("counted")
	unit.Need, unit.Limit = 3, 4
	hold(t, s, mutex("name"))
	hold(t, s, reader)
	hold(t, s, unit)
	before := revision()
	for _, c := range []driver.Claim{mutex("name"), mutex("shared"), mutex("counted")} {
		if st := enter(t, s, tries(c)); st.Held || st.Holder == nil || st.Holder.Note != "a test" {
			t.Errorf("a try of %q: %+v", c.Name, st)
		}
	}
	more := mutex("counted")
	more.Need, more.Limit = 2, 4
	if st := enter(t, s, tries(more)); st.Held {
		t.Errorf("3 and 2 of 4 are held: %+v", st)
	}
	if after := revision(); after != before {
		t.Errorf("tries that failed wrote %d times", after-before)
	}
}

// The server cannot add units up in a comparison: a try reads the line, sees that it
// fits, and is put if no claim has entered since. Here a claim has entered.
func TestATryIsNotHeldBesideAClaimThatEnteredAfterItsRead(t *testing.T) {
	t.Parallel()
	of := func(need, limit int) driver.Claim {
		c := mutex("name")
		c.Need, c.Limit = need, limit
		return c
	}
	for name, c := range map[string]struct {
		first, try, since driver.Claim
		fits              bool // the try, behind both
	}{
		"a unit, and the last ones are taken":    {first: of(1, 3), try: of(1, 3), since: of(2, 3)},
		"a unit, and a mutex waits":              {first: of(1, 3), try: of(1, 3), since: of(1, 1)},
		"a reader, and a writer waits":           {first: of(2, driver.All), try: of(1, driver.All), since: of(driver.All, driver.All)},
		"a unit, and there is room for another":  {first: of(1, 3), try: of(1, 3), since: of(1, 3), fits: true},
		"a reader, and there is another of them": {first: of(2, driver.All), try: of(1, driver.All), since: of(1, driver.All), fits: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			addr := []string{sharedEtcd(t).Addr()}
			var p interceptor
			a, b := open(t, engine(t, addr), longTTL), open(t, engine(t, addr, p.option()), longTTL)
			hold(t, a, c.first)
			entered := false
			p.next(puts, func(send func() error) error { // refused: the line is not empty
				err := send()
				p.next(puts, func(send func() error) error {
					enter(t, a, c.since)
					entered = true
					return send()
				})
				return err
			})
			st := enter(t, b, tries(c.try))
			if !entered {
				t.Fatal("no claim entered after the read of the try")
			}
			if st.Held != c.fits {
				t.Errorf("the try: %+v behind %+v and %+v", st, c.first, c.since)
			}
			leave(t, a, c.first)
			if !c.fits {
				if st := enter(t, a, c.since); !st.Held {
					t.Errorf("the claim that entered in between: %+v, with no claim ahead", st)
				}
			}
		})
	}
}

// etcd#22123: a release whose context had ended forgot the key it should delete.
func TestALeaveWithAnEndedContextCanBeRepeated(t *testing.T) {
	t.Parallel()
	e := engine(t, []string{sharedEtcd(t).Addr()})
	s := open(t, e, longTTL)
	c := mutex("name")
	hold(t, s, c)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	expect(t, "Leave with an ended context", s.Leave(ctx, c), context.Canceled)
	if n := len(keysOf(t, e, "name")); n != 1 {
		t.Errorf("%d keys after a Leave that was not sent", n)
	}
	leave(t, s, c)
	if n := len(keysOf(t, e, "name")); n != 0 {
		t.Errorf("%d keys after Leave", n)
	}
}

// website#710, etcd#6278: any key under a lock's prefix blocked the lock.
func TestAForeignKeyIsRefusedAndLeftAlone(t *testing.T) {
	t.Parallel()
	e := engine(t, []string{sharedEtcd(t).Addr()})
	s := open(t, e, longTTL)
	put := func(key string) {
		t.Helper()
		if _, err := clientOf(e).Put(t.Context(), key, "not ours"); err != nil {
			t.Fatal(err)
		}
	}
	put(e.keys.names("free"))       // in no line
	put(e.keys.names("free/other")) // nor this
	put(string(e.keys) + "free")    // nor this
	hold(t, s, tries(mutex("free")))
	hold(t, s, mutex("free/another"))
	odd := string(e.keys.line("taken by a key")) + "odd"
	fake := string(e.keys.line("taken by a claim")) + "x0123456789abcdef.0"
	put(odd)
	put(fake)
	reader := mutex("taken by a claim")
	reader.Limit = driver.All
	for _, c := range []driver.Claim{mutex("taken by a key"), mutex("taken by a claim"), reader} {
		for _, c := range []driver.Claim{c, tries(c)} {
			c.ID = newID()
			st, err := s.Enter(t.Context(), c)
			if err == nil || !strings.Contains(err.Error(), "not written by pawl") {
				t.Errorf("Enter with a foreign key in line: %+v, %v", st, err)
			}
		}
	}
	for _, key := range []string{odd, fake} {
		before, _, _ := strings.Cut(key, "\t")
		name := strings.TrimPrefix(before, e.keys.names(""))
		if keys := keysOf(t, e, name); !slices.Equal(keys, []string{key}) {
			t.Errorf("the line of %q has %q", name, keys)
		}
		found := false
		for entry, err := range e.List(t.Context(), name) {
			found = found || err == nil && entry.Foreign && entry.Name == name
		}
		if !found {
			t.Errorf("List does not show the foreign key in the line of %q", name)
		}
	}
}

// An unlock that came before its lock deleted every key of the name (etcd, commit
// 5b8c6b548): its own key was still empty.
func TestALeaveOfAClaimThatWasNeverEnteredEndsNothing(t *testing.T) {
	t.Parallel()
	e := engine(t, []string{sharedEtcd(t).Addr()})
	s := open(t, e, longTTL)
	held, waits := mutex("name"), mutex("name")
	hold(t, s, held)
	wait(t, s, waits)
	expect(t, "Leave of a claim that was never entered", s.Leave(t.Context(), mutex("name")), driver.ErrGone)
	expect(t, "Leave of a claim on another name", s.Leave(t.Context(), mutex("other")), driver.ErrGone)
	if keys := keysOf(t, e, "name"); len(keys) != 2 {
		t.Errorf("%q are in line, not two", keys)
	}
}

// A session that does not know a claim searches the line for it, and finds a later try
// that another session has entered.
func TestALeaveOfAnUnknownClaimEndsNoLaterTry(t *testing.T) {
	t.Parallel()
	e := engine(t, []string{sharedEtcd(t).Addr()})
	s, other := open(t, e, longTTL), open(t, e, longTTL)
	one := mutex("name")
	two, three := one, one
	two.Try, three.Try = 2, 3
	hold(t, s, two)
	expect(t, "Leave of the first try", other.Leave(t.Context(), one), driver.ErrGone)
	if st := beat(t, s, two); !st.Held {
		t.Errorf("Beat: %+v of the second try, after a Leave of the first", st)
	}
	hold(t, other, three) // ends lower tries
	if st := beat(t, s, two); !st.Gone {
		t.Errorf("Beat: %+v of the second try, while the third holds", st)
	}
}

// A Leave has found its claim and sent nothing yet. Then a beat finds that the claim was
// evicted, and the next claim gets its slot.
func TestALeaveOfAClaimThatABeatHasForgottenEndsNoLaterClaim(t *testing.T) {
	t.Parallel()
	e := engine(t, []string{sharedEtcd(t).Addr()})
	s := open(t, e, longTTL)
	old, later := mutex("name"), mutex("name")
	hold(t, s, old)
	p := s.find(old) // as Leave does
	evict(t, e, "name")
	if st := beat(t, s, old); !st.Gone {
		t.Fatalf("Beat: %+v for an evicted claim", st)
	}
	st := hold(t, s, later)
	if now := s.find(later); now.key != p.key {
		t.Fatalf("the later claim has the key %q, not %q", now.key, p.key)
	}
	expect(t, "Leave of an evicted claim", s.leaveKnown(t.Context(), p, old.Try), driver.ErrGone)
	if again := beat(t, s, later); !again.Held || again.Token != st.Token {
		t.Errorf("Beat: %+v of the later claim, granted as %+v", again, st)
	}
	leave(t, s, later)
}

// One claim of an EnterAll is evicted. The repeated EnterAll enters all of them again.
func TestARepeatedEnterAllOfWhichHalfIsInLineEntersAllAgain(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]func(send func() error) error{
		"the first was answered": func(send func() error) error { return send() },
		"the answer was lost":    loseAnswer,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			addr := []string{sharedEtcd(t).Addr()}
			var p interceptor
			near, s := engine(t, addr), open(t, engine(t, addr, p.option()), longTTL)
			all := []driver.Claim{mutex("a"), mutex("b"), mutex("c")}
			p.next(puts, answer)
			_, _ = s.EnterAll(t.Context(), all)
			evict(t, near, "b")
			p.next(deletes, func(send func() error) error { // of the claims that are in line
				err := send()
				p.next(puts, func(send func() error) error {
					err := send()
					if err := s.Beat(t.Context(), nil, nil); err != nil {
						t.Errorf("Beat: %v", err)
					}
					return err
				})
				return err
			})
			st, err := s.EnterAll(t.Context(), all)
			if err != nil {
				t.Fatalf("EnterAll again: %v", err)
			}
			out := make([]driver.Standing, len(all))
			if err := s.Beat(t.Context(), all, out); err != nil {
				t.Fatal(err)
			}
			for i, c := range all {
				if !st[i].Held || !out[i].Held || out[i].Token != st[i].Token {
					t.Errorf("%s was entered as %+v and is beaten as %+v", c.Name, st[i], out[i])
				}
				if keys := keysOf(t, near, c.Name); len(keys) != 1 {
					t.Errorf("in line for %s are %q", c.Name, keys)
				}
				leave(t, s, c)
			}
		})
	}
}

// One claim of an EnterAll is evicted. The repeated EnterAll enters all of them again, but
// its answer is lost: what follows finds keys that were not created when the first was
// answered, and that an Enter without an answer has put.
func TestAnEnterAllThatEntersAgainMayLoseItsAnswer(t *testing.T) {
	t.Parallel()
	again := func(t *testing.T) (n *count, s *session, kept, evicted driver.Claim) {
		addr := []string{sharedEtcd(t).Addr()}
		var p interceptor
		n = &count{}
		near, s := engine(t, addr), open(t, engine(t, addr, append(n.options(), p.option())...), longTTL)
		kept, evicted = mutex("kept"), mutex("evicted")
		all := []driver.Claim{kept, evicted}
		if _, err := s.EnterAll(t.Context(), all); err != nil {
			t.Fatal(err)
		}
		evict(t, near, evicted.Name)
		p.next(puts, func(send func() error) error { // refused: one key is there
			err := send()
			p.next(puts, loseAnswer)
			return err
		})
		_, err := s.EnterAll(t.Context(), all)
		expect(t, "EnterAll whose answer is lost", err, driver.ErrUnreachable)
		return n, s, kept, evicted
	}
	t.Run("and be repeated", func(t *testing.T) {
		t.Parallel()
		n, s, kept, evicted := again(t)
		st, err := s.EnterAll(t.Context(), []driver.Claim{kept, evicted})
		if err != nil || !st[0].Held || !st[1].Held {
			t.Fatalf("EnterAll: %+v, %v", st, err)
		}
		beat(t, s, kept) // the first one looks for what a restored backup may have brought back
		n.take()
		beat(t, s, kept)
		n.expect(t, "a beat after both keys were seen", map[string]int{"LeaseKeepAlive": 1, "Txn": 1})
		leave(t, s, kept)
		leave(t, s, evicted)
		n.expect(t, "two Leaves after both keys were seen", map[string]int{"DeleteRange": 2})
	})
	t.Run("and be left", func(t *testing.T) {
		t.Parallel()
		_, s, kept, _ := again(t)
		leave(t, s, kept)
	})
}
