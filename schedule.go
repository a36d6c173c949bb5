package pawl

import (
	"time"

	"github.com/pawl-go/pawl/internal/claimset"
)

// maxInFlight bounds the beats that are under way behind a stuck one.
const maxInFlight = 4

// A schedule says when the keeper beats. A round of beats begins every TTL/3 and asks for
// all claims. A beat is bounded by TTL/6; one that did not learn of every claim is
// followed almost at once by one for the others, and one that is stuck beyond its
// bound, for TTL/5, does not delay the next. Earlier than that, a beat which returns at
// its bound with some answers would be overtaken by one that asks for all again. Between
// the rounds there are beats for grants that came so late that they would end before.
type schedule struct {
	next     instant // when the next beat is due
	urgent   instant // when one for late grants is; 0: there is none
	round    instant // when the present round began
	sent     instant // when the last beat was sent
	inFlight int     // beats that have not returned
	fails    int     // beats in a row that learnt nothing
}

// due says when the next beat may go out.
func (r *schedule) due(ttl time.Duration) instant {
	due := r.next
	switch {
	case r.inFlight >= maxInFlight:
		return claimset.Never // until one of them returns
	case r.inFlight > 0:
		due = max(r.next, r.sent.Add(ttl/5))
	}
	if r.urgent != 0 {
		due = min(due, r.urgent)
	}
	return due
}

// granted takes in a grant that is promised until then. One that would end before the next
// beat is answered has one of its own, with others that come within a moment.
func (r *schedule) granted(now, promised instant, ttl time.Duration) (urgent bool) {
	if promised >= r.next.Add(ttl/6) {
		return false
	}
	r.urgent = max(now, r.sent.Add(ttl/100))
	return true
}

// begin reports whether a beat that is sent now begins a round.
func (r *schedule) begin(now instant, ttl time.Duration) bool {
	if now < r.round.Add(ttl/3) {
		return false
	}
	r.round = now
	return true
}

// launched counts a beat in.
func (r *schedule) launched(now instant, ttl time.Duration) {
	r.inFlight++
	r.sent, r.urgent = now, 0
	if r.next <= now {
		r.next = now.Add(ttl / 5) // should it be stuck; an answer moves it
	}
}

// returned counts a beat out, of which some, all or nothing was learnt.
func (r *schedule) returned(now instant, ttl time.Duration, some, all bool) {
	r.inFlight--
	if some || all {
		r.fails = 0
	}
	if all {
		r.next = max(r.next, r.round.Add(ttl/3))
		return
	}
	pause := min(max(ttl/100, time.Millisecond)<<min(r.fails, 5), ttl/6)
	r.fails++
	r.next = min(r.next, now.Add(pause))
}
