package sqlline

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/pawl-go/pawl/sqllock/internal/sqlstore"
)

// How often a name is polled: soon after its line has changed, then less and less often.
const (
	pollFirst = 2 * time.Millisecond
	pollLast  = 50 * time.Millisecond
	pollBatch = 100 // names in one batch
)

// A poll is one name with waiters or watchers in this process; one read serves all of
// them. Guarded by the engine's mu.
type poll struct {
	state headState
	known bool // state was read
	pause time.Duration
	due   time.Time
}

// A headState changes with every grant and every departure.
type headState struct{ departed, token, used, waiting, exclusive int64 }

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
		// With jitter, so that processes do not poll in step.
		p.pause = min(max(p.pause*3/2, pollFirst), pollLast)
		p.due = now.Add(p.pause/2 + rand.N(p.pause/2))
	}
	return due, next
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

func (e *Engine) readHeadStates(ctx context.Context, names []string) ([]headState, error) {
	states := make([]headState, len(names))
	b := sqlstore.Batch{ReadOnly: true}
	for i, name := range names {
		b.Steps = append(b.Steps, sqlstore.Step{Statement: e.q.HeadState, Args: e.named(name), Row: func(r sqlstore.Row) error {
			h := &states[i]
			return r.Scan(&h.departed, &h.token, &h.used, &h.waiting, &h.exclusive)
		}})
	}
	return states, e.d.Store.Run(ctx, &b)
}

// polled compares the state of a name with the last one and wakes waiters and watchers.
// The state is stored only after that. A line found twice without a holder is advanced:
// the process that should have done so died, or its call was cancelled. If a claim that
// was not exclusive has departed, the first that waits looks as well: the departed claim
// may stay in the line until a guarded transaction has ended, of which nothing tells.
func (e *Engine) polled(ctx context.Context, name string, h headState, turns bool) error {
	e.mu.Lock()
	p := e.polls[name]
	if p == nil {
		e.mu.Unlock()
		return nil
	}
	same := p.known && p.state == h
	e.mu.Unlock()
	ids := e.waiters.IDs(name)
	waiters := turns && len(ids) > 0
	switch {
	case same && waiters && h.stalled():
		return e.advance(ctx, e.key(name))
	case same:
		return nil
	case waiters:
		waiting, err := e.readTexts(ctx, e.q.LineWaiting, e.named(name))
		if err != nil {
			return err
		}
		if h.exclusive == 0 && len(waiting) > 0 {
			e.waiters.Wake(waiting[0])
		}
		e.wakeUnlisted(ids, waiting)
	}
	e.watchers.Departed(name, uint64(h.departed))
	e.mu.Lock()
	defer e.mu.Unlock()
	if p.known {
		p.pause = pollFirst
		p.due = time.Now().Add(pollFirst)
	}
	p.known, p.state = true, h
	return nil
}
