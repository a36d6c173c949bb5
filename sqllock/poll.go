package sqllock

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"
)

// How often a name is looked at where the store does not push: soon after
// something happened there, then less and less often.
const (
	pollFirst = 2 * time.Millisecond
	pollLast  = 50 * time.Millisecond
	pollRun   = 100 // names in one flight
)

// A poll is one name that somebody in this process waits for or watches; all of
// them together cost one look. Guarded by the engine's mu.
type poll struct {
	waiters, watchers int
	seen              mark
	known             bool // seen means something
	pause             time.Duration
	due               time.Time
}

// A mark changes whenever a turn comes or somebody leaves.
type mark struct{ departed, token, used, waiting, whole int64 }

// unsettled says that somebody waits and nobody holds, as it is for a moment
// between giving back and letting in.
func (m mark) unsettled() bool { return m.waiting > 0 && m.used == 0 && m.whole == 0 }

// pollsLocked returns the poll of a name, due now.
func (e *Engine) pollsLocked(name string) *poll {
	p := e.polls[name]
	if p == nil {
		p = &poll{}
		e.polls[name] = p
	}
	p.pause, p.due = 0, time.Time{}
	return p
}

func (e *Engine) unpollLocked(name string, p *poll) {
	if p.waiters == 0 && p.watchers == 0 {
		delete(e.polls, name)
	}
}

// nudge has a name looked at soon: something happened there by our own hand.
func (e *Engine) nudge(key string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if p := e.polls[e.name(key)]; p != nil {
		p.pause, p.due = 0, time.Time{}
		e.stirLocked()
	}
}

// Poll looks at the names that are due, with one flight for all of them, wakes
// whom it finds let in or ended, and returns how long nothing is due. With turns
// false only watched names are looked at: those who wait are told of their turn.
func (w Waiters) Poll(ctx context.Context, turns bool) (time.Duration, error) {
	e := w.e
	for {
		due, next := e.due(turns)
		if len(due) == 0 {
			return next, nil
		}
		marks, err := e.peek(ctx, due)
		if err != nil {
			return pollLast, err
		}
		for i, name := range due {
			if err := e.seen(ctx, name, marks[i], turns); err != nil {
				return pollLast, err
			}
		}
	}
}

// Stirred returns a channel that is closed when somebody begins to wait, or when
// something happened on a name that is waited for.
func (w Waiters) Stirred() <-chan struct{} {
	w.e.mu.Lock()
	defer w.e.mu.Unlock()
	if w.e.stirred == nil {
		w.e.stirred = make(chan struct{})
	}
	return w.e.stirred
}

// Anyone reports whether anybody waits or watches.
func (w Waiters) Anyone() bool {
	w.e.mu.Lock()
	defer w.e.mu.Unlock()
	return len(w.e.waiters)+len(w.e.watchers) > 0
}

// Watching returns a channel that is closed when somebody begins to watch.
func (w Waiters) Watching() <-chan struct{} {
	w.e.mu.Lock()
	defer w.e.mu.Unlock()
	if w.e.watching == nil {
		w.e.watching = make(chan struct{})
	}
	return w.e.watching
}

// Missed returns a channel that is closed when somebody finds that its turn has come
// and was not told: whoever should have told it may not be heard any more.
func (w Waiters) Missed() <-chan struct{} {
	w.e.mu.Lock()
	defer w.e.mu.Unlock()
	if w.e.missed == nil {
		w.e.missed = make(chan struct{})
	}
	return w.e.missed
}

// turned notes that the turn of one who waits was found.
func (e *Engine) turned(id string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if w := e.waiters[id]; w != nil && !w.told && e.missed != nil {
		close(e.missed)
		e.missed = nil
	}
}

// Watched reports whether anybody watches, whom no push reaches.
func (w Waiters) Watched() bool {
	w.e.mu.Lock()
	defer w.e.mu.Unlock()
	return len(w.e.watchers) > 0
}

// Overdue has the next Poll look at every name, for when notices may have been
// lost.
func (w Waiters) Overdue() {
	w.e.mu.Lock()
	defer w.e.mu.Unlock()
	for _, p := range w.e.polls {
		p.pause, p.due = 0, time.Time{}
	}
}

// due takes the names to look at now, or says when there will be one.
func (e *Engine) due(turns bool) (names []string, next time.Duration) {
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
		if len(names) == pollRun {
			break
		}
		names = append(names, name)
		// Never twice alike, so that processes do not look in step.
		p.pause = min(max(p.pause*3/2, pollFirst), pollLast)
		p.due = now.Add(p.pause/2 + rand.N(p.pause/2))
	}
	return names, next
}

func (e *Engine) peek(ctx context.Context, names []string) ([]mark, error) {
	marks := make([]mark, len(names))
	f := Flight{Reads: true}
	for i, name := range names {
		a := &Args{}
		a.text[Name] = e.key(name)
		f.Steps = append(f.Steps, Step{Query: e.q.peek, Args: a, Row: func(r Row) error {
			m := &marks[i]
			return r.Scan(&m.departed, &m.token, &m.used, &m.waiting, &m.whole)
		}})
	}
	return marks, e.d.Store.Run(ctx, &f)
}

// seen compares a name's mark with the last one and tells whom it concerns. The
// mark is kept only once all are told. A line that is twice found without a
// holder is settled: whoever should have done it died, or was cancelled.
func (e *Engine) seen(ctx context.Context, name string, m mark, turns bool) error {
	e.mu.Lock()
	p := e.polls[name]
	if p == nil {
		e.mu.Unlock()
		return nil
	}
	same := p.known && p.seen == m
	waiters := p.waiters > 0 && turns
	e.mu.Unlock()
	if same {
		if waiters && m.unsettled() {
			return e.settle(ctx, e.key(name))
		}
		return nil
	}
	if waiters {
		if err := e.wakeLetIn(ctx, name); err != nil {
			return err
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if p.known {
		p.pause = pollFirst
		p.due = time.Now().Add(pollFirst)
	}
	p.known, p.seen = true, m
	e.departedLocked(name, m.departed)
	return nil
}

// wakeLetIn wakes those who wait for a claim on name that waits no more.
func (e *Engine) wakeLetIn(ctx context.Context, name string) error {
	e.mu.Lock()
	var before []string
	for id, w := range e.waiters {
		if w.name == name {
			before = append(before, id)
		}
	}
	e.mu.Unlock()
	a := &Args{}
	a.text[Name] = e.key(name)
	still, err := e.read(ctx, e.q.waits, a)
	if err != nil {
		return err
	}
	slices.Sort(still)
	e.wake(slices.DeleteFunc(before, func(id string) bool {
		_, waits := slices.BinarySearch(still, id)
		return waits
	})...)
	return nil
}
