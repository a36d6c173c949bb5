package sqlline

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/pawl-go/pawl/sqllock/internal/sqlstore"
)

// How often a name is polled: soon after its line has changed, then less and less often.
// Behind others pollLast is longer by a part for each of pollAhead, as far as they are
// counted: all that wait for one name poll it, and the turn of most is far away.
const (
	pollFirst = 2 * time.Millisecond
	pollLast  = 50 * time.Millisecond
	pollAhead = 4
	pollCount = 64
	pollBatch = 100 // names in one batch
)

// A poll is one name with waiters or watchers in this process; one read serves all of
// them. Guarded by the engine's mu.
type poll struct {
	state headState
	known bool      // state was read
	read  time.Time // when
	pause time.Duration
	due   time.Time
}

// A headState changes with every grant and every departure, but for ahead.
type headState struct {
	departed, token, used, waiting, exclusive int64

	first int64 // the token of the first that waits; 0 if none does
	ahead int64 // how many wait ahead of the first of this process, up to pollCount
}

// moved reports whether a turn or a departure came between two states. If not, others
// have come at most.
func (h headState) moved(since headState) bool {
	return h.departed != since.departed || h.token != since.token || h.used != since.used || h.exclusive != since.exclusive
}

// stalled says that claims wait and none holds, as it is for a moment between a release
// and the next grant.
func (h headState) stalled() bool { return h.waiting > 0 && h.used == 0 && h.exclusive == 0 }

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
		states, err := e.readHeadStates(ctx, due)
		if err != nil {
			return pollLast, err
		}
		for i, name := range due {
			if err := e.polled(ctx, name, states[i], turns); err != nil {
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
		p.pause, p.due = 0, time.Time{}
	}
}

// duePolls returns the names to read now, or when there will be one.
func (e *Engine) duePolls(turns bool) (due []string, next time.Duration) {
	names := e.watchers.Names()
	if turns {
		names = append(names, e.waiters.Names()...)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.setPollsLocked(names)
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
		p.due = now.Add(pollLast) // unless the read says otherwise
	}
	return due, next
}

// plan sets when to poll next, after h was read. As long as nothing moves the pause grows.
// If something has, it is half of what the turns of those ahead take at this pace.
func (p *poll) plan(h headState, now time.Time) {
	most := pollLast * time.Duration(pollAhead+h.ahead) / pollAhead
	switch departed := h.departed - p.state.departed; {
	case !p.known || departed <= 0 && (h.ahead > 0 || !h.moved(p.state)):
		p.pause = p.pause * 3 / 2
	case departed > 0:
		p.pause = now.Sub(p.read) / time.Duration(departed) * time.Duration(h.ahead) / 2
	default: // a grant, or a shared claim: there may be room for the next
		p.pause = 0
	}
	p.pause = min(max(p.pause, pollFirst), most)
	p.due = now.Add(p.pause/2 + rand.N(p.pause/2)) // so that processes do not poll in step
	p.known, p.state, p.read = true, h, now
}

// setPollsLocked adds the polls of new names, due now, and removes those of others.
func (e *Engine) setPollsLocked(names []string) {
	old := e.polls
	e.polls = make(map[string]*poll, len(names))
	for _, name := range names {
		if e.polls[name] = old[name]; e.polls[name] == nil {
			e.polls[name] = &poll{}
		}
	}
}

// firstPlace returns the token of the first claim of this process that waits for a name,
// 0 if there is none.
func (e *Engine) firstPlace(name string) (first int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, token := range e.places[name] {
		if first == 0 || token < first {
			first = token
		}
	}
	return first
}

func (e *Engine) readHeadStates(ctx context.Context, names []string) ([]headState, error) {
	states := make([]headState, len(names))
	b := sqlstore.Batch{ReadOnly: true}
	for i, name := range names {
		a := e.named(name)
		a.Num[sqlstore.Token], a.Num[sqlstore.Count] = e.firstPlace(name), pollCount
		b.Steps = append(b.Steps, sqlstore.Step{Statement: e.q.HeadState, Args: a, Row: func(r sqlstore.Row) error {
			h := &states[i]
			return r.Scan(&h.departed, &h.token, &h.used, &h.waiting, &h.exclusive, &h.first, &h.ahead)
		}})
	}
	return states, e.d.Store.Run(ctx, &b)
}

// polled wakes the waiters of claims that do not wait any more, by the state that was
// read, and the watchers. A line found twice without a holder is advanced: the process
// that should have done so died, or its call was cancelled. If a claim that was not
// exclusive has departed, the first that waits looks as well: the departed claim may stay
// in the line until a guarded transaction has ended, of which nothing tells.
func (e *Engine) polled(ctx context.Context, name string, h headState, turns bool) error {
	e.mu.Lock()
	p := e.polls[name]
	if p == nil {
		e.mu.Unlock()
		return nil
	}
	same := p.known && !h.moved(p.state)
	p.plan(h, time.Now())
	waiters := turns && len(e.places[name]) > 0
	var woken []string
	for id, token := range e.places[name] {
		if h.first == 0 || token < h.first || token == h.first && h.exclusive == 0 && !same {
			woken = append(woken, id)
		}
	}
	e.mu.Unlock()
	if waiters {
		e.waiters.Wake(woken...)
		if same && h.stalled() {
			return e.advance(ctx, e.key(name))
		}
	}
	e.watchers.Departed(name, uint64(h.departed))
	return nil
}
