package etcdlock

import (
	"context"
	"fmt"
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
	e := engine(t, []string{common(t).Addr()})
	s := open(t, e, unbeaten)
	one, two := mutex("name"), mutex("name")
	hold(t, s, one)
	st := wait(t, s, two)
	if st.Token != 0 { // etcd#12017: a waiter was taken for the owner
		t.Errorf("a waiter has token %d", st.Token)
	}
	if st := enter(t, s, tries(mutex("name"))); st.Held {
		t.Error("a third of the same session holds")
	}
	leave(t, s, one)
	if st, err := until(t.Context(), s, two, st); err != nil || !st.Held || st.Token == 0 {
		t.Errorf("Await: %+v, %v", st, err)
	}
}

// etcd's own TryLock enters the line and leaves it: meanwhile it is in the way.
func TestABusyTryWritesNothing(t *testing.T) {
	t.Parallel()
	e := engine(t, []string{testserver.Etcd(t).Addr()})
	s := open(t, e, unbeaten)
	revision := func() int64 {
		got, err := e.client.Get(t.Context(), "x", clientv3.WithCountOnly())
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

// A sum is beyond what the server can compare: a try reads the line, sees that it fits,
// and is put if nobody has entered since. Here somebody has.
func TestATryIsNotHeldBesideOneWhoEnteredSinceItLooked(t *testing.T) {
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
			addr := []string{common(t).Addr()}
			var p tap
			a, b := open(t, engine(t, addr), unbeaten), open(t, engine(t, addr, p.option()), unbeaten)
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
				t.Fatal("nobody has entered since the try looked")
			}
			if st.Held != c.fits {
				t.Errorf("the try: %+v behind %+v and %+v", st, c.first, c.since)
			}
			leave(t, a, c.first)
			if !c.fits {
				if st := enter(t, a, c.since); !st.Held {
					t.Errorf("who entered since: %+v, with nobody ahead", st)
				}
			}
		})
	}
}

// etcd#22123: a release with a context that had ended forgot what it was to release.
func TestALeaveWithAnEndedContextCanBeRepeated(t *testing.T) {
	t.Parallel()
	e := engine(t, []string{common(t).Addr()})
	s := open(t, e, unbeaten)
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

// website#710, etcd#6278: whatever was under a lock's prefix blocked it.
func TestAForeignKeyIsRefusedAndLeftAlone(t *testing.T) {
	t.Parallel()
	e := engine(t, []string{common(t).Addr()})
	s := open(t, e, unbeaten)
	put := func(key string) {
		t.Helper()
		if _, err := e.client.Put(t.Context(), key, "not ours"); err != nil {
			t.Fatal(err)
		}
	}
	put(e.space.names("free"))       // in no line
	put(e.space.names("free/other")) // nor this
	put(string(e.space) + "free")    // nor this
	hold(t, s, tries(mutex("free")))
	hold(t, s, mutex("free/another"))
	odd := e.space.line("taken by a key").from + "odd"
	fake := e.space.line("taken by a claim").from + "x0123456789abcdef.0"
	put(odd)
	put(fake)
	reader := mutex("taken by a claim")
	reader.Limit = driver.All
	for _, c := range []driver.Claim{mutex("taken by a key"), mutex("taken by a claim"), reader} {
		for _, c := range []driver.Claim{c, tries(c)} {
			c.ID = newID()
			st, err := s.Enter(t.Context(), c)
			if err == nil || !strings.Contains(err.Error(), "not pawl's") {
				t.Errorf("Enter where a foreign key stands: %+v, %v", st, err)
			}
		}
	}
	for _, key := range []string{odd, fake} {
		before, _, _ := strings.Cut(key, "\t")
		name := strings.TrimPrefix(before, e.space.names(""))
		if keys := keysOf(t, e, name); !slices.Equal(keys, []string{key}) {
			t.Errorf("the line of %q has %q", name, keys)
		}
		found := false
		for entry, err := range e.List(t.Context(), name) {
			found = found || err == nil && entry.Foreign && entry.Name == name
		}
		if !found {
			t.Errorf("List does not show what stands in the line of %q", name)
		}
	}
}

// An unlock that came before its lock deleted every key of the name (etcd, commit
// 5b8c6b548): its own key was still empty.
func TestALeaveOfWhatWasNeverEnteredEndsNothing(t *testing.T) {
	t.Parallel()
	e := engine(t, []string{common(t).Addr()})
	s := open(t, e, unbeaten)
	held, waits := mutex("name"), mutex("name")
	hold(t, s, held)
	wait(t, s, waits)
	expect(t, "Leave of a claim that was never entered", s.Leave(t.Context(), mutex("name")), driver.ErrGone)
	expect(t, "Leave of a claim on another name", s.Leave(t.Context(), mutex("other")), driver.ErrGone)
	if keys := keysOf(t, e, "name"); len(keys) != 2 {
		t.Errorf("%q are in line, not two", keys)
	}
}

// A session that does not know the claim looks for it in line, and finds a later try of
// it, which another session has entered.
func TestALeaveOfAnUnknownClaimEndsNoLaterTry(t *testing.T) {
	t.Parallel()
	e := engine(t, []string{common(t).Addr()})
	s, other := open(t, e, unbeaten), open(t, e, unbeaten)
	one := mutex("name")
	two, three := one, one
	two.Try, three.Try = 2, 3
	hold(t, s, two)
	expect(t, "Leave of the first try", other.Leave(t.Context(), one), driver.ErrGone)
	if st := beat(t, s, two); !st.Held {
		t.Errorf("Beat: %+v of the second try, after a Leave of the first", st)
	}
	hold(t, other, three) // what ends lower ones
	if st := beat(t, s, two); !st.Gone {
		t.Errorf("Beat: %+v of the second try, while the third holds", st)
	}
}

// What Line costs has nothing to do with the store's other keys, nor with how many
// wait in the line.
func TestALineIsOneReadHoweverManyOthersThereAre(t *testing.T) {
	t.Parallel()
	addr := []string{common(t).Addr()}
	var n count
	e, asks := engine(t, addr), engine(t, addr, n.options()...)
	var all []driver.Claim
	for range 20 { // each under a lease of its own
		s, c := open(t, e, unbeaten), mutex("name")
		enter(t, s, c)
		all = append(all, c)
	}
	s := open(t, e, unbeaten)
	for range 600 { // more than List reads at a time
		hold(t, s, mutex("name/"+newID()))
	}
	for range 3 {
		n.take()
		line, err := asks.Line(t.Context(), "name")
		if err != nil || len(line) != len(all) {
			t.Fatalf("%d in line, %v, not %d", len(line), err, len(all))
		}
		for i, entry := range line {
			if entry.ID != all[i].ID || entry.Held != (i == 0) {
				t.Errorf("place %d: %+v", i, entry)
			}
		}
		if line[0].Left == 0 {
			t.Error("it is not told how much time the holder has left")
		}
		n.expect(t, "Line", map[string]int{"Range": 1, "LeaseTimeToLive": headLeases})
		if err := asks.Evict(t.Context(), line[len(line)-1]); err != nil {
			t.Fatal(err)
		}
		n.expect(t, "Evict", map[string]int{"Range": 1, "Txn": 1})
		all = all[:len(all)-1]
	}
	if line, err := asks.Line(t.Context(), "nam"); err != nil || len(line) > 0 {
		t.Errorf("the line of another name: %+v, %v", line, err)
	}
}

// A waiter is let in between the look of an eviction and its delete: what the operator
// has seen waits, and who holds is another case.
func TestAWaiterThatIsLetInMeanwhileIsNotEvicted(t *testing.T) {
	t.Parallel()
	addr := []string{common(t).Addr()}
	var p tap
	operator, e := engine(t, addr, p.option()), engine(t, addr)
	a, b := open(t, e, unbeaten), open(t, e, unbeaten)
	first, second := mutex("name"), mutex("name")
	hold(t, a, first)
	wait(t, b, second)
	waits := lineOf(t, operator, "name")[1]
	p.next(deletes, func(send func() error) error {
		leave(t, a, first)
		return send()
	})
	expect(t, "Evict of a waiter that holds by now", operator.Evict(t.Context(), waits), driver.ErrGone)
	if keys := keysOf(t, e, "name"); len(keys) != 1 {
		t.Errorf("in line are %q, and not who was let in", keys)
	}
	hold(t, b, second)
}

// An Enter that landed late has the ID and the try of the claim, and may stand before it.
func TestAnEvictionEndsTheKeyWhoseTokenItNames(t *testing.T) {
	t.Parallel()
	e := engine(t, []string{common(t).Addr()})
	s := open(t, e, unbeaten)
	c := mutex("name")
	c.Limit = driver.All
	line := e.space.line(c.Name)
	late := line.claimed(c, s.lease, 7)
	if _, err := e.client.Put(t.Context(), late, labelOf(c, s.id), withLease(s)); err != nil {
		t.Fatal(err)
	}
	st := hold(t, s, c)
	for _, entry := range lineOf(t, e, c.Name) {
		if entry.Fence != st.Token {
			continue
		}
		if err := e.Evict(t.Context(), entry); err != nil {
			t.Errorf("Evict of %+v: %v", entry, err)
		}
	}
	if keys := keysOf(t, e, c.Name); !slices.Equal(keys, []string{late}) {
		t.Errorf("in line are %q, and not the late one alone", keys)
	}
}

// A beat finds that a claim was evicted, and its slot goes to the next, while a Leave of
// it has found the claim and sent nothing yet.
func TestALeaveOfWhatABeatHasForgottenEndsNoLaterClaim(t *testing.T) {
	t.Parallel()
	e := engine(t, []string{common(t).Addr()})
	s := open(t, e, unbeaten)
	old, later := mutex("name"), mutex("name")
	hold(t, s, old)
	p := s.find(old) // as Leave does
	evict(t, e, "name")
	if st := beat(t, s, old); !st.Gone {
		t.Fatalf("Beat: %+v of what was evicted", st)
	}
	st := hold(t, s, later)
	if now := s.find(later); now.key != p.key {
		t.Fatalf("the later claim has the key %q, and not %q", now.key, p.key)
	}
	expect(t, "Leave of what was evicted", s.end(t.Context(), p, old.Try), driver.ErrGone)
	if again := beat(t, s, later); !again.Held || again.Token != st.Token {
		t.Errorf("Beat: %+v of the later claim, granted as %+v", again, st)
	}
	leave(t, s, later)
}

// Somebody ends one of the claims of an EnterAll. Repeated, it enters all of them anew.
func TestAnEnterAllOfWhichHalfIsThereEntersAllAnew(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]func(send func() error) error{
		"the first was answered": func(send func() error) error { return send() },
		"the answer was lost":    unheard,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			addr := []string{common(t).Addr()}
			var p tap
			near, s := engine(t, addr), open(t, engine(t, addr, p.option()), unbeaten)
			all := []driver.Claim{mutex("a"), mutex("b"), mutex("c")}
			p.next(puts, answer)
			_, _ = s.EnterAll(t.Context(), all)
			evict(t, near, "b")
			p.next(deletes, func(send func() error) error { // of what is there
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

// What List reads is compacted away between two of its pages.
func TestAListOutlivesACompaction(t *testing.T) {
	t.Parallel()
	e := engine(t, []string{testserver.Etcd(t).Addr()})
	s := open(t, e, unbeaten)
	const names = page + 100
	var puts []clientv3.Op
	for i := range names {
		c := mutex(fmt.Sprintf("name/%03d", i))
		puts = append(puts, clientv3.OpPut(e.space.line(c.Name).claimed(c, s.lease, 0), labelOf(c, s.id), withLease(s)))
	}
	for some := range slices.Chunk(puts, maxOps) {
		if _, err := e.client.Txn(t.Context()).Then(some...).Commit(); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 4*soon)
	defer cancel()
	n := 0
	for _, err := range e.List(ctx, "") {
		if err != nil {
			t.Fatalf("List, after %d claims: %v", n, err)
		}
		if n++; n == 1 {
			now, err := e.client.Put(t.Context(), "other", "")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := e.client.Compact(t.Context(), now.Header.Revision); err != nil {
				t.Fatal(err)
			}
		}
	}
	if n != names {
		t.Errorf("%d claims are listed, not %d", n, names)
	}
}
