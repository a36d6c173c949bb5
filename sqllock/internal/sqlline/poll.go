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
	waiters, watchers int
	state             headState
	known             bool // state was read
	pause             time.Duration
	due               time.Time
}

// A headState changes with every grant and every departure.
type headState struct{ departed, token, used, waiting, exclusive int64 }

// stalled says that claims wait and none holds, as it is for a moment between a release
// and the next grant.
func (h headState) stalled() bool { return h.waiting > 0 && h.used == 0 && h.exclusive == 0 }

// pollLocked returns the poll of a name, due now.
func (e *Engine) pollLocked(name string) *poll {
	p := e.polls[name]
	if p == nil {
		p = &poll{}
		e.polls[name] = p
	}
	p.pause, p.due = 0, time.Time{}
	return p
}

func (e *Engine) endPollLocked(name string, p *poll) {
	if p.waiters == 0 && p.watchers == 0 {
		delete(e.polls, name)
	}
}

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
func (e *Engine) duePolls(turns bool) (names []string, next time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := time.Now()
	next = pollLast
	for name, p := range e.polls {
		if !turns && p.watchers == 0 {
			continue
		}
		if wait := p.due.Sub(now); wait > 0 {
			next = min(next, wait)
			continue
		}
		if len(names) == pollBatch {
			break
		}
		names = append(names, name)
		// With jitter, so that processes do not poll in step.
		p.pause = min(max(p.pause*3/2, pollFirst), pollLast)
		p.due = now.Add(p.pause/2 + rand.N(p.pause/2))
	}
	return names, next
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
// the process that should have done so died, or its call was cancelled.
func (e *Engine) polled(ctx context.Context, name string, h headState, turns bool) error {
	e.mu.Lock()
	p := e.polls[name]
	if p == nil {
		e.mu.Unlock()
		return nil
	}
	same := p.known && p.state == h
	waiters := p.waiters > 0 && turns
	e.mu.Unlock()
	if same {
		if waiters && h.stalled() {
			return e.advance(ctx, e.key(name))
		}
		return nil
	}
	if waiters {
		if err := e.wakeGranted(ctx, name); err != nil {
			return err
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if p.known {
		p.pause = pollFirst
		p.due = time.Now().Add(pollFirst)
	}
	p.known, p.state = true, h
	e.departedLocked(name, h.departed)
	return nil
}

// wakeGranted wakes the waiters of a name whose claim does not wait any more.
func (e *Engine) wakeGranted(ctx context.Context, name string) error {
	e.mu.Lock()
	var ids []string
	for id, w := range e.waiters {
		if w.name == name {
			ids = append(ids, id)
		}
	}
	e.mu.Unlock()
	waiting, err := e.readTexts(ctx, e.q.LineWaiting, e.named(name))
	if err != nil {
		return err
	}
	e.wakeUnlisted(ids, waiting)
	return nil
}
