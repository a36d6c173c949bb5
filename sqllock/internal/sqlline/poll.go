package sqlline

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/pawl-go/pawl/sqllock/internal/sqlstore"
)

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
	// Those far behind leave it to others for a while, as Look does.
	advance := same && h.stalled() && (h.ahead <= atFront || p.pause >= min(time.Duration(h.ahead)*othersPause, pollLast))
	places := maps.Clone(e.places[name])
	e.mu.Unlock()
	if turns {
		far := farFrom(places)
		for w, at := range places {
			ahead := h.ahead
			if at.token >= far {
				ahead += farBehind
			}
			switch {
			case h.first == 0, at.token < h.first, at.token == h.own && h.ownLeft == 0, at.token == h.first && h.holder == "" && !same:
				w.Wake()
			case at.token == h.own && h.left > 0:
				w.Beaten(sent, h.left, h.holder, lookEvery(at.ttl, ahead))
			case h.left > 0 && h.ownLeft > 0:
				w.Beaten(sent, min(h.left, h.ownLeft), h.holder, lookEvery(at.ttl, ahead))
			}
		}
		if advance && len(places) > 0 {
			// Not run: a line that an open guard keeps from advancing is polled in its time.
			b := e.newLineBatch()
			e.addEnd(b, e.named(name), func() {})
			return e.change(ctx, b)
		}
	}
	e.watchers.Departed(name, uint64(h.departed))
	return nil
}
