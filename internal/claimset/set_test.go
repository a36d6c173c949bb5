package claimset

import (
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
)

const (
	ttl    = 10 * time.Second
	margin = time.Second
	start  = Instant(time.Hour)
)

func at(s int) Instant { return start.Add(time.Duration(s) * time.Second) }

func queued(id string) *Claim {
	return &Claim{Claim: driver.Claim{ID: id, Try: 1, Name: "a", Need: 1, Limit: 1, Queue: true}}
}

func held(fence uint64, valid time.Duration) driver.Standing {
	return driver.Standing{Held: true, Token: fence, Valid: valid}
}

// heldSet has one claim, which is held with fence 7 and promised until 9 s.
func heldSet(t *testing.T, fixed bool, maxHold time.Duration) (*Set, *Claim) {
	t.Helper()
	s := New(ttl, margin, fixed, at(0))
	c := queued("x")
	c.MaxHold = maxHold
	if !s.Join(c) || !s.Answered(c, at(0), s.Promised(), held(7, ttl)) || !s.Grant(c, 7, at(1)) {
		t.Fatal("not granted")
	}
	return &s, c
}

func TestAClaimIsPromisedFromWhenItsCallWasSent(t *testing.T) {
	for _, tc := range []struct {
		name     string
		fixed    bool
		maxHold  time.Duration
		do       func(s *Set, c *Claim)
		deadline Instant
		state    State
	}{
		{name: "granted", deadline: at(9), state: Held},
		{name: "the maximum hold ends it earlier", maxHold: 3 * time.Second, deadline: at(4), state: Held},
		{name: "the maximum hold does not end it later", maxHold: time.Hour, deadline: at(9), state: Held},
		{name: "passed on, the maximum hold starts anew", maxHold: 3 * time.Second, deadline: at(5), state: Held,
			do: func(s *Set, c *Claim) { s.Pass(c, at(2), time.Minute) }},
		{name: "confirmed", deadline: at(12), state: Held,
			do: func(s *Set, c *Claim) { s.Confirmed(c, 7, at(3), held(7, ttl)) }},
		{name: "confirmed without renewal", fixed: true, deadline: at(9), state: Held,
			do: func(s *Set, c *Claim) { s.Confirmed(c, 7, at(3), held(7, ttl)) }},
		{name: "an earlier call answered later takes nothing back", deadline: at(12), state: Held,
			do: func(s *Set, c *Claim) {
				s.Confirmed(c, 7, at(3), held(7, ttl))
				s.Confirmed(c, 7, at(1), held(7, ttl))
			}},
		{name: "the store has another claim under the ID", deadline: at(9), state: Held,
			do: func(s *Set, c *Claim) {
				if s.Confirmed(c, 7, at(3), held(8, ttl)) || s.Confirmed(c, 7, at(3), driver.Standing{Gone: true}) {
					t.Error("confirmed")
				}
			}},
		{name: "ended", deadline: at(9), state: Ended, do: func(s *Set, c *Claim) {
			if !s.End(c) || s.End(c) {
				t.Error("a hold ends once")
			}
			s.Confirmed(c, 7, at(3), held(7, ttl))
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s, c := heldSet(t, tc.fixed, tc.maxHold)
			if tc.do != nil {
				tc.do(s, c)
			}
			if c.Deadline() != tc.deadline || c.State() != tc.state {
				t.Errorf("deadline %v, state %d; want %v, %d", c.Deadline().Sub(at(0)), c.State(), tc.deadline.Sub(at(0)), tc.state)
			}
		})
	}
}

func TestAGrantThatCameTooLateIsRefused(t *testing.T) {
	s := New(ttl, margin, false, at(0))
	c := queued("x")
	s.Join(c)
	s.Answered(c, at(0), s.Promised(), held(7, ttl))
	if s.Grant(c, 7, at(9)) {
		t.Error("granted at its deadline")
	}
	s.Rename(c, "y")
	if s.Answered(c, at(9), s.Promised(), driver.Standing{Valid: ttl}); c.State() != Waiting {
		t.Error("not waiting")
	}
	if s.Retry(c); c.State() != Entering || c.Try != 2 || s.Grant(c, 7, at(10)) {
		t.Error("a promise to the old place counts for the new one")
	}
	s.Close()
	if s.Answered(c, at(10), s.Promised(), held(7, ttl)) || s.Grant(c, 7, at(10)) || s.Join(queued("z")) {
		t.Error("a closed set grants")
	}
}

func TestValidZeroLivesByTheSessionAsItWasPromisedBefore(t *testing.T) {
	s := New(ttl, margin, false, at(0))
	c := queued("x")
	s.Join(c)
	s.Beaten(at(3), true)
	promised := s.Promised()
	s.Beaten(at(5), true)
	s.Answered(c, at(4), promised, driver.Standing{Held: true, Token: 1})
	if c.Promise() != at(12) {
		t.Errorf("promised until %v", c.Promise().Sub(at(0)))
	}
}

func TestPassing(t *testing.T) {
	for _, tc := range []struct {
		name string
		do   func(s *Set, c *Claim)
		now  Instant
		want bool
	}{
		{name: "within the turn", now: at(2), want: true},
		{name: "after the turn", now: at(4)},
		{name: "in doubt", now: at(2), do: func(s *Set, c *Claim) {
			s.Prolonged(Query{Claim: c, ID: c.ID, Try: c.Try, Held: true}, driver.Standing{}, at(1), at(1))
		}},
		{name: "pinned", now: at(2), do: func(s *Set, c *Claim) { c.Pin() }},
		{name: "ended", now: at(2), do: func(s *Set, c *Claim) { s.End(c) }},
		{name: "closed", now: at(2), do: func(s *Set, c *Claim) { s.Close() }},
		{name: "too often", now: at(2), do: func(s *Set, c *Claim) { c.pass = MaxPass }},
		{name: "promised for too short", now: at(2), do: func(s *Set, c *Claim) { c.promise = at(5) }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s, c := heldSet(t, false, 0)
			if tc.do != nil {
				tc.do(s, c)
			}
			if got := s.Pass(c, tc.now, 3*time.Second); got != tc.want {
				t.Errorf("passed: %v", got)
			}
		})
	}
}

func TestWhatABeatMeansForAClaim(t *testing.T) {
	for _, tc := range []struct {
		name     string
		waiting  bool // the claim is in line, not held
		asked    func(q *Query)
		st       driver.Standing
		now      Instant
		want     Outcome
		deadline Instant // of a hold
	}{
		{name: "renewed", st: held(7, ttl), want: Renewed, deadline: at(11)},
		{name: "gone", st: driver.Standing{Gone: true}, want: Replaced},
		{name: "another grant", st: held(8, ttl), want: Replaced},
		{name: "a place in line in its stead", st: driver.Standing{Valid: ttl}, want: Replaced},
		{name: "asked before the grant", st: driver.Standing{Valid: ttl}, want: Renewed, deadline: at(11),
			asked: func(q *Query) { q.Held = false }},
		{name: "too late", st: held(7, ttl), now: at(9), want: Late},
		{name: "nothing learnt", want: Doubted},
		{name: "another Try", st: driver.Standing{Gone: true}, want: Stale, asked: func(q *Query) { q.Try = 0 }},
		{name: "another ID", st: held(7, ttl), want: Stale, asked: func(q *Query) { q.ID = "y" }},
		{name: "in line", waiting: true, st: driver.Standing{Valid: ttl}, want: InLine},
		{name: "its turn", waiting: true, st: held(9, ttl), want: Turn},
		{name: "a lost place", waiting: true, st: driver.Standing{Gone: true}, want: Gone},
		{name: "nothing learnt of a place", waiting: true, want: Unlearnt},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s, c := heldSet(t, false, 0)
			if tc.waiting {
				c = queued("w")
				s.Join(c)
				s.Answered(c, at(0), s.Promised(), driver.Standing{Valid: ttl})
			}
			q := Query{Claim: c, ID: c.ID, Try: c.Try, Held: !tc.waiting}
			if tc.asked != nil {
				tc.asked(&q)
			}
			if tc.deadline == 0 {
				tc.deadline = at(9)
			}
			if got := s.Prolonged(q, tc.st, at(2), max(tc.now, at(3))); got != tc.want || !tc.waiting && c.Deadline() != tc.deadline {
				t.Errorf("outcome %d, deadline %v; want %d, %v", got, c.Deadline().Sub(at(0)), tc.want, tc.deadline.Sub(at(0)))
			}
		})
	}
}

func TestDoubtIsToldOnceAndEndsWithAnAnswer(t *testing.T) {
	s, c := heldSet(t, false, 0)
	q := Query{Claim: c, ID: c.ID, Try: c.Try, Held: true}
	for i, want := range []Outcome{Doubted, Unlearnt, Unlearnt} {
		if got := s.Prolonged(q, driver.Standing{}, at(2), at(2)); got != want || !c.Doubtful() {
			t.Errorf("%d: outcome %d", i, got)
		}
	}
	if got := s.Prolonged(q, held(7, ttl), at(2), at(2)); got != Renewed || c.Doubtful() {
		t.Errorf("outcome %d", got)
	}
}

func TestASetThatRetiresEndsWithItsClaims(t *testing.T) {
	s, c := heldSet(t, false, 0)
	s.Retire()
	if s.Open() || s.Closed() || s.Join(queued("y")) || !s.Pass(c, at(2), time.Minute) {
		t.Error("a claim joined, or the one that is there stopped working")
	}
}

func TestBeatsAskForWhatTheyMayProlong(t *testing.T) {
	for _, fixed := range []bool{false, true} {
		s, c := heldSet(t, fixed, 0)
		entering, waiting := queued("e"), queued("w")
		s.Join(entering)
		s.Join(waiting)
		s.Answered(waiting, at(0), s.Promised(), driver.Standing{Valid: ttl})
		var ids string
		for _, q := range s.Query(nil, at(3), ttl/6) {
			ids += q.ID
		}
		if want := map[bool]string{false: "xw", true: "w"}[fixed]; ids != want {
			t.Errorf("fixed %v: asks for %q", fixed, ids)
		}
		s.End(entering)
		s.End(waiting)
		if s.Beatable() == fixed || len(s.Live()) != 1 || s.Live()[0] != c {
			t.Errorf("fixed %v: beatable %v, live %v", fixed, s.Beatable(), s.Live())
		}
	}
}

// What one beat was answered for, the next of the same round does not ask again; what
// had no answer it does, and what is still asked only when that has lasted too long.
func TestABeatAsksForWhatTheRoundHasNotProlonged(t *testing.T) {
	s := New(ttl, margin, false, at(0))
	names := map[string]*Claim{}
	for i, id := range []string{"w1", "h1", "w2", "h2"} {
		c := queued(id)
		s.Join(c)
		names[id] = c
		sent := at(0).Add(time.Duration(-i) * time.Second) // so the later ones are promised for less
		if st := (driver.Standing{Held: id[0] == 'h', Token: 7, Valid: ttl}); st.Held {
			s.Answered(c, sent, 0, st)
			s.Grant(c, 7, at(0))
		} else {
			s.Answered(c, sent, 0, st)
		}
	}
	ask := func(now Instant) (qs []Query, ids string) {
		qs = s.Query(nil, now, 2*time.Second)
		for _, q := range qs {
			ids += q.ID + " "
		}
		return qs, ids
	}
	want := func(got, want string) {
		t.Helper()
		if got != want {
			t.Fatalf("asked for %q, want %q", got, want)
		}
	}
	first, ids := ask(at(3))
	want(ids, "h2 h1 w2 w1 ")
	_, ids = ask(at(4))
	want(ids, "") // the first is under way
	second, ids := ask(at(5))
	want(ids, "h2 h1 ")
	s.Prolonged(second[0], held(7, ttl), at(5), at(5))
	s.Prolonged(second[1], driver.Standing{}, at(5), at(5))
	_, ids = ask(at(6))
	want(ids, "h1 ")
	for _, q := range first { // answered late, and only for places in line
		st := driver.Standing{}
		if !q.Held {
			st.Valid = ttl
		}
		if q.Claim == names["w1"] {
			st.Valid += time.Second
		}
		s.Prolonged(q, st, at(3), at(7))
	}
	_, ids = ask(at(8))
	want(ids, "h1 ")
	s.NextRound()
	_, ids = ask(at(10))
	want(ids, "h1 h2 w2 w1 ")
}
