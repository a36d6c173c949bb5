package sqlline

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/pawl-go/pawl/sqllock/internal/sqlstore"
)

// How often a name is polled: soon after its line has changed, then less and less often.
// Behind others pollLast is longer, by a part for each pollAhead turns, as far as they are
// counted: all that wait for one name poll it, and the turn of most is far away.
const (
	pollFirst = 2 * time.Millisecond
	pollLast  = 50 * time.Millisecond
	pollAhead = 4
	pollCount = 64
	pollTurn  = 20 * time.Millisecond // a turn counts as no longer: what the last one took says little of the next
	pollBatch = 100                   // names in one batch
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

	first  int64         // the token of the first that waits; 0 if none does
	own    int64         // that of the first of this process; set before the read, 0 if none does
	waits  int64         // 1 if that one waits indeed
	ahead  int64         // after how many turns it has its own, as far as that was read
	holder string        // the first characters of the exclusive holder's id; "" if there is none
	left   time.Duration // for how long nothing ahead expires; 0 where something has, or none holds
}

func (h *headState) scan(r sqlstore.Row) error {
	var exclusive, need, limit, now, until, firstUntil int64
	err := r.Scan(&h.departed, &h.token, &h.used, &h.waiting, &h.first, &h.waits,
		&exclusive, &need, &limit, &now, &until, &firstUntil, &h.holder)
	h.ahead = exclusive + need/max(limit, 1) // readers, and permits that fit, have theirs together
	if until == 0 || firstUntil != 0 && firstUntil < until {
		until = firstUntil
	}
	if h.holder != "" || h.used > 0 {
		h.left = micros(max(0, until-now))
	}
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

// PollUntil polls until ctx ends.
func (w Waiters) PollUntil(ctx context.Context) {
	for ctx.Err() == nil && w.WaitForAny(ctx) == nil {
		activity := w.Activity()
		next, _ := w.Poll(ctx, true) // an error is met again soon
		t := time.NewTimer(next)
		select {
		case <-t.C:
		case <-activity:
		case <-ctx.Done():
		}
		t.Stop()
	}
}

// Poll reads the names that are due, in one batch, wakes the waiters of claims that were
// granted or have ended, and returns how long no name is due. With turns false it reads
// only watched names, because waiters are notified.
func (w Waiters) Poll(ctx context.Context, turns bool) (time.Duration, error) {
	e := w.e
	for {
		due, next := e.duePolls(turns)
		if len(due) == 0 {
			return next, nil
		}
		sent := time.Now()
		states, err := e.readHeadStates(ctx, due)
		if err != nil {
			return pollLast, err
		}
		for i, name := range due {
			if err := e.polled(ctx, name, states[i], sent, turns); err != nil {
				return pollLast, err
			}
		}
	}
}

// PollAll makes the next Poll read every name, because notices may have been lost.
func (w Waiters) PollAll() {
	w.e.mu.Lock()
	defer w.e.mu.Unlock()
	for _, p := range w.e.polls {
		p.hurry()
	}
}

// hurry makes a poll due.
func (p *poll) hurry() { p.pause, p.due, p.soon = 0, time.Time{}, true }

// duePolls returns the names to read now, or when there will be one.
func (e *Engine) duePolls(turns bool) (due []string, next time.Duration) {
	watched := e.watchers.Names()
	names := watched
	if turns {
		names = append(slices.Clip(names), e.waiters.Names()...)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.setPollsLocked(names, watched)
	now := time.Now()
	next = pollLast
	for name, p := range e.polls {
		if wait := p.due.Sub(now); wait > 0 {
			next = min(next, wait)
			continue
		}
		if len(due) == pollBatch {
			break
		}
		due = append(due, name)
		p.soon = false
		p.due = now.Add(pollLast/2 + rand.N(pollLast/2)) // unless the read says otherwise
	}
	return due, next
}

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
	p.pause = min(max(p.pause, pollFirst), most)
	if !p.soon {
		p.due = now.Add(p.pause/2 + rand.N(p.pause/2)) // so that processes do not poll in step
	}
	p.known, p.state, p.read = true, h, now
}

// setPollsLocked adds the polls of new names, due now, and removes those of others.
func (e *Engine) setPollsLocked(names, watched []string) {
	old := e.polls
	e.polls = make(map[string]*poll, len(names))
	for _, name := range names {
		if e.polls[name] = old[name]; e.polls[name] == nil {
			e.polls[name] = &poll{}
		}
		e.polls[name].watched = false
	}
	for _, name := range watched {
		e.polls[name].watched = true
	}
}

// firstPlace returns the token of the first claim of this process that waits for a name,
// 0 if there is none.
func (e *Engine) firstPlace(name string) (first int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, at := range e.places[name] {
		if first == 0 || at.token < first {
			first = at.token
		}
	}
	return first
}

func (e *Engine) readHeadStates(ctx context.Context, names []string) ([]headState, error) {
	states := make([]headState, len(names))
	b := sqlstore.Batch{ReadOnly: true}
	for i, name := range names {
		a := e.named(name)
		states[i].own = e.firstPlace(name)
		a.Num[sqlstore.Token], a.Num[sqlstore.Count] = states[i].own, pollCount
		b.Steps = append(b.Steps, sqlstore.Step{Statement: e.q.HeadState, Args: a, Row: states[i].scan})
	}
	return states, e.d.Store.Run(ctx, &b)
}

// polled wakes the waiters of claims that do not wait any more, by the state that was
// read, and the watchers. One that has ended behind the first of this process is found
// when it is the first, or with a beat. A line found twice without a holder is advanced:
// the process that should have done so died, or its call was cancelled. If a claim that
// was not exclusive has departed, the first that waits looks as well: the departed claim
// may stay in the line until a guarded transaction has ended, of which nothing tells.
func (e *Engine) polled(ctx context.Context, name string, h headState, sent time.Time, turns bool) error {
	e.mu.Lock()
	p := e.polls[name]
	if p == nil {
		e.mu.Unlock()
		return nil
	}
	same := p.known && !h.moved(p.state)
	p.plan(h, time.Now())
	places := maps.Clone(e.places[name])
	e.mu.Unlock()
	if turns {
		for w, at := range places {
			switch {
			case h.first == 0, at.token < h.first, at.token == h.own && h.waits == 0, at.token == h.first && h.holder == "" && !same:
				w.Wake()
			case h.left > 0:
				w.Beaten(sent, h.left, h.holder, at.every)
			}
		}
		if same && h.stalled() && len(places) > 0 {
			return e.advance(ctx, e.key(name))
		}
	}
	e.watchers.Departed(name, uint64(h.departed))
	return nil
}
