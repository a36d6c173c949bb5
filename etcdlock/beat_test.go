package etcdlock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/etcdlock/internal/etcdstore"
)

// beat returns the answer of a beat for one claim.
func beat(t testing.TB, s *session, c driver.Claim) driver.Standing {
	t.Helper()
	out := make([]driver.Standing, 1)
	if err := s.Beat(t.Context(), []driver.Claim{c}, out); err != nil {
		t.Fatalf("Beat: %v", err)
	}
	return out[0]
}

// A claim may have ended before it is entered again, as the core does after an error: an
// Enter without an answer is repeated, the repeat puts the key, fails to read its place,
// and deletes the key. A key that is there afterwards belongs to no claim, and a beat
// deletes it.
func TestABeatDoesNotEndAClaimThatIsEnteredAgain(t *testing.T) {
	t.Parallel()
	for name, do := range map[string]func(t *testing.T, p *interceptor, arrive func() error, enter, beat func()){
		"a beat runs before the answer": func(_ *testing.T, p *interceptor, _ func() error, enter, beat func()) {
			p.next(puts, func(send func() error) error {
				err := send()
				beat()
				return err
			})
			enter()
		},
		"a beat has seen the first Enter arrive": func(t *testing.T, p *interceptor, arrive func() error, enter, beat func()) {
			if err := arrive(); err != nil {
				t.Error(err)
			}
			p.next(deletes, func(send func() error) error {
				enter()
				return send()
			})
			beat()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			addr := []string{sharedEtcd(t).Addr()}
			var p interceptor
			var d delayedPut
			direct := engine(t, addr)
			a, s := open(t, direct, longTTL), open(t, engine(t, addr, p.option(), d.option()), longTTL)
			several, reader, writer := mutex("name"), mutex("name"), mutex("name")
			several.Need, several.Limit, reader.Limit = 2, driver.All, driver.All
			hold(t, a, several) // beside it a reader must read the line in full
			arrive := d.hold()
			_, err := s.Enter(t.Context(), reader)
			expect(t, "Enter that is delayed", err, driver.ErrUnreachable)
			p.next(puts, func(send func() error) error {
				err := send()
				p.next(reads, loseRequest)
				return err
			})
			_, err = s.Enter(t.Context(), reader)
			expect(t, "Enter whose place could not be read", err, driver.ErrUnreachable)
			if keys := keysOf(t, direct, "name"); len(keys) != 1 {
				t.Fatalf("in line are %q, not only the first claim", keys)
			}
			leave(t, a, several)
			var st driver.Standing
			do(t, &p, arrive, func() { st = hold(t, s, reader) }, func() {
				if err := s.Beat(t.Context(), nil, nil); err != nil {
					t.Errorf("Beat: %v", err)
				}
			})
			if again := beat(t, s, reader); !again.Held || again.Token != st.Token || st.Token == 0 {
				t.Errorf("Beat: %+v for a reader that was granted as %+v", again, st)
			}
			if keys := keysOf(t, direct, "name"); len(keys) != 1 {
				t.Errorf("in line are %q, not only the reader", keys)
			}
			if st := enter(t, a, tries(writer)); st.Held {
				t.Errorf("a writer holds beside a reader: %+v", st)
			}
		})
	}
}

// A beat asks about a claim whose Enter had no answer, and finds no key. Before the beat
// returns, the Enter is repeated and granted.
func TestABeatReportsNothingAboutAClaimThatWasEnteredDuringIt(t *testing.T) {
	t.Parallel()
	var p interceptor
	s := open(t, engine(t, []string{sharedEtcd(t).Addr()}, p.option()), longTTL)
	c := mutex("name")
	p.next(puts, loseRequest)
	_, err := s.Enter(t.Context(), c)
	expect(t, "Enter that never arrived", err, driver.ErrUnreachable)
	var st driver.Standing
	p.next(reads, func(send func() error) error { // it compares
		err := send()
		p.next(reads, func(send func() error) error { // and then reads
			err := send()
			st = hold(t, s, c)
			return err
		})
		return err
	})
	if asked := beat(t, s, c); asked.Gone || asked.Valid != 0 {
		t.Errorf("Beat: %+v for a claim that was entered during it", asked)
	}
	if again := beat(t, s, c); !again.Held || again.Token != st.Token || st.Token == 0 {
		t.Errorf("Beat: %+v for a claim that was granted as %+v", again, st)
	}
	leave(t, s, c)
}

// Run with -race: a beat asks about the key that a claim had when the beat began.
func TestABeatGoesOnWhileAnEnterChangesTheSlotOfAClaim(t *testing.T) {
	t.Parallel()
	s := open(t, engine(t, []string{sharedEtcd(t).Addr()}), longTTL)
	c := mutex("name/" + newID())
	hold(t, s, c)
	out := make([]driver.Standing, 1)
	checks := s.checks([]driver.Claim{c}, out)
	changed := make(chan struct{})
	go func() {
		defer close(changed)
		s.changeSlot(checks[0].claim)
	}()
	if err := s.compare(t.Context(), checks); err != nil || !checks[0].found {
		t.Errorf("the key that the claim had: %+v, %v", checks[0], err)
	}
	<-changed
	if s.conclude(checks, out); out[0].Gone || out[0].Valid != 0 {
		t.Errorf("Beat: %+v of a claim that was entered again", out[0])
	}
}

// One message prolongs all claims. Of what compares their keys one part has no answer: the
// others are answered for, and the next beat asks for that part alone.
func TestABeatAnswersForAllButThePartThatHadNoAnswer(t *testing.T) {
	t.Parallel()
	const locks = 2*etcdstore.MaxOps + 50
	var p interceptor
	var n count
	e := engine(t, []string{sharedEtcd(t).Addr()}, append(n.options(), p.option())...)
	s := open(t, e, longTTL)
	live := make([]driver.Claim, locks)
	for i := range live {
		live[i] = mutex(fmt.Sprint("beaten/", i))
		hold(t, s, live[i])
	}
	if err := s.Beat(t.Context(), live, make([]driver.Standing, locks)); err != nil { // looks for orphans, once
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	p.next(reads, func(func() error) error { <-ctx.Done(); return ctx.Err() })
	n.take()
	out := make([]driver.Standing, locks)
	if err := s.Beat(ctx, live, out); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Beat: %v", err)
	}
	var rest []driver.Claim
	for i, st := range out {
		if st == (driver.Standing{}) {
			rest = append(rest, live[i])
		} else if !st.Held || st.Valid != s.TTL() {
			t.Fatalf("claim %d: %+v", i, st)
		}
	}
	if len(rest) != etcdstore.MaxOps && len(rest) != locks%etcdstore.MaxOps {
		t.Errorf("%d claims have no answer, not one part", len(rest))
	}
	n.take()
	out = out[:len(rest)]
	if err := s.Beat(t.Context(), rest, out); err != nil || slices.Contains(out, driver.Standing{}) {
		t.Errorf("the next beat: %+v, %v", out, err)
	}
	n.expect(t, "the next beat", map[string]int{"LeaseKeepAlive": 1, "Txn": 1})
}
