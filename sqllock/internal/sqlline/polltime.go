package sqlline

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/pawl-go/pawl/driverkit"
	"github.com/pawl-go/pawl/sqllock/internal/sqlstore"
)

// How often a name is polled: soon after its line has changed, then less and less often.
// Behind others pollLast is longer, by a part for each pollAhead turns, as far as they are
// counted: all that wait for one name poll it, and the turn of most is far away. But a poll
// comes several times within what is left to the claim, and to those that must not expire
// unseen.
const (
	pollFirst = 2 * time.Millisecond
	pollLast  = 50 * time.Millisecond
	pollAhead = 4
	pollCount = 256
	pollTurn  = 20 * time.Millisecond // a turn counts as no longer: what the last one took says little of the next
	pollBatch = 100                   // names in one batch
	pollLeft  = 4                     // how often within the time that is left
)

// A poll is one name with waiters or watchers in this process; one read serves all of
// them. Guarded by the engine's mu.
type poll struct {
	watched bool // by one who waits for departures, and not for a turn
	state   headState
	known   bool      // state was read
	read    time.Time // when
	pause   time.Duration
	due     time.Time
	soon    bool // due at once, since before what is read now was read
}

// A headState is what a poll reads of a line.
type headState struct {
	departed, token, used, waiting int64 // change with every grant and every departure

	first   int64         // the token of the first that waits; 0 if none does
	own     int64         // that of the first of this process; set before the read, 0 if none does
	ownLeft time.Duration // until that one expires; 0 where it has, or does not wait
	ahead   int64         // after how many turns it has its own, as far as that was read
	holder  string        // the first characters of the exclusive holder's id; "" if there is none
	left    time.Duration // for how long nothing ahead of it expires; 0 where something has, or none holds
}

func (h *headState) scan(r sqlstore.Row) error {
	var exclusive, need, limit, now, own int64
	var holder, holders, ahead int64 // when the first of them expires
	err := r.Scan(&h.departed, &h.token, &h.used, &h.waiting, &h.first,
		&exclusive, &need, &limit, &now, &holder, &holders, &ahead, &own, &h.holder)
	h.ahead = exclusive + need/max(limit, 1) // readers, and permits that fit, have theirs together
	h.ownLeft = micros(max(0, own-now))
	nearest := max(holder, holders) // one of them is 0; both if none holds, or one has ended while guarded
	if ahead != 0 {
		nearest = min(nearest, ahead)
	}
	h.left = micros(max(0, nearest-now))
	return err
}

// moved reports whether a turn or a departure came between two states. If not, others
// have come at most.
func (h headState) moved(since headState) bool {
	return h.departed != since.departed || h.token != since.token || h.used != since.used || h.holder != since.holder
}

// stalled says that claims wait and none holds, as it is for a moment between a release
// and the next grant.
func (h headState) stalled() bool { return h.waiting > 0 && h.used == 0 && h.holder == "" }

// hurry makes a poll due.
func (p *poll) hurry() { p.pause, p.due, p.soon = 0, time.Time{}, true }

// plan sets when to poll next, after h was read. As long as nothing moves the pause grows.
// If something has, it is half of what the turns of those ahead take at this pace. Of a name
// that is watched every departure is waited for.
func (p *poll) plan(h headState, now time.Time) {
	ahead := h.ahead
	if p.watched {
		ahead = 0
	}
	turns := max(h.departed-p.state.departed, p.state.ahead-h.ahead) // several may depart as one
	most := pollLast * time.Duration(pollAhead+ahead) / pollAhead
	switch {
	case p.soon: // since the read
	case !p.known || h.departed <= p.state.departed && (ahead > 0 || !h.moved(p.state)):
		p.pause = p.pause * 3 / 2
	case turns > 0:
		p.pause = min(now.Sub(p.read)/time.Duration(turns), pollTurn) * time.Duration(ahead) / 2
	default: // a grant, or a shared claim: there may be room for the next
		p.pause = 0
	}
	for _, left := range []time.Duration{h.left, h.ownLeft} {
		if left > 0 {
			most = min(most, max(left/pollLeft, pollLast))
		}
	}
	p.pause = min(max(p.pause, pollFirst), most)
	if !p.soon {
		p.due = now.Add(p.pause/2 + rand.N(p.pause/2)) // so that processes do not poll in step
	}
	p.known, p.state, p.read = true, h, now
}

// farBehind is from how many ahead on it does not concern a waiter yet that there is another
// holder, or none. The statements line_expiry and append_claim read no more claims.
const farBehind = 64

// farFrom returns the token from which on claims have farBehind others of their own process
// ahead of them.
func farFrom(places map[*driverkit.Waiter]place) int64 {
	if len(places) <= farBehind {
		return math.MaxInt64
	}
	tokens := make([]int64, 0, len(places))
	for _, at := range places {
		tokens = append(tokens, at.token)
	}
	slices.Sort(tokens)
	return tokens[farBehind]
}

// lookEvery is how often a waiter looks at most because there is another holder, or none,
// behind as many as wait ahead. What expires ahead of it, it looks for in time.
func lookEvery(ttl time.Duration, ahead int64) time.Duration {
	if ahead >= farBehind {
		return 8 * ttl
	}
	return ttl
}
