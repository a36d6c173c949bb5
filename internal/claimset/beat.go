package claimset

import (
	"cmp"
	"slices"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// A Query is one claim as a beat asked for it.
type Query struct {
	Claim *Claim
	ID    string
	Try   int
	Held  bool
	round uint32
}

// Beatable reports whether there is anything to beat for. A session with renewal is
// beaten also without claims: in some stores it would end.
func (s *Set) Beatable() bool { return !s.fixed || s.held < len(s.live) }

// NextRound says that every claim is to be prolonged anew.
func (s *Set) NextRound() { s.round++ }

// Query appends to qs what a beat that is sent now should ask for: the claims that an
// Enter was answered for and no beat of this round, but for holds that are not
// prolonged. Holds come before places in line, and of each the one that is promised for
// the shortest time comes first. What another beat was asked patience ago or later is
// left to that one, and for twice as long if it is a place in line.
func (s *Set) Query(qs []Query, now Instant, patience time.Duration) []Query {
	for _, c := range s.live {
		wait := 2 * patience
		if c.state == Held {
			wait = patience
		}
		if c.state == Entering || s.fixed && c.state == Held || c.round == s.round || c.asked != 0 && now < c.asked.Add(wait) {
			continue
		}
		c.asked = now
		qs = append(qs, Query{Claim: c, ID: c.ID, Try: c.Try, Held: c.state == Held, round: s.round})
	}
	slices.SortFunc(qs, func(a, b Query) int {
		if a.Held != b.Held {
			if a.Held {
				return -1
			}
			return 1
		}
		return cmp.Compare(a.Claim.promise, b.Claim.promise)
	})
	return qs
}

// An Outcome is what the answer to a beat means for one claim.
type Outcome uint8

// The outcomes of a beat for one claim.
const (
	Stale    Outcome = iota // the claim has ended or entered again since: the answer says nothing
	Replaced                // a hold that the store does not have any more
	Gone                    // a place in line that the store does not have any more
	Unlearnt                // the store said nothing about the claim
	Doubted                 // the same, about a hold that was certain until now
	Late                    // a hold was prolonged after its deadline
	Turn                    // a claim in line whose turn has come
	Renewed                 // a hold was prolonged
	InLine                  // a place in line was prolonged
)

// Prolonged takes in what a beat, sent at the given time, answered about one claim.
// After Replaced and Late the caller ends the hold.
func (s *Set) Prolonged(q Query, st driver.Standing, sent, now Instant) Outcome {
	c := q.Claim
	held := c.state == Held
	if c.asked == sent {
		c.asked = 0
	}
	switch {
	case c.state == Ended || c.ID != q.ID || c.Try != q.Try:
		return Stale
	case held && (st.Gone || st.Valid > 0 && (st.Held && st.Token != c.fence || !st.Held && q.Held)):
		// Gone, or replaced: an Enter that got no answer landed after the hold had
		// been evicted, and the store now prolongs a claim of the same ID that waits,
		// or that was granted later.
		return Replaced
	case st.Gone:
		return Gone
	case st.Valid <= 0 && held && !c.doubt:
		c.doubt = true
		return Doubted
	case st.Valid <= 0:
		return Unlearnt
	case held && now >= c.Deadline():
		return Late // an answer that came too late prolongs nothing
	}
	c.doubt, c.round = false, max(c.round, q.round)
	s.answered = max(s.answered, sent)
	s.promised = max(s.promised, sent.Add(st.Valid)) // claims that live by the session live by this
	s.prolong(c, sent.Add(st.Valid))
	switch {
	case held:
		return Renewed
	case st.Held:
		return Turn
	}
	return InLine
}

// Beaten takes in that a beat was answered; complete says that it was answered for
// the session and every claim.
func (s *Set) Beaten(sent Instant, complete bool) {
	s.answered = max(s.answered, sent)
	if complete {
		s.promised = max(s.promised, sent.Add(s.ttl))
	}
}
