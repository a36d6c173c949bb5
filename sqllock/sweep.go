package sqllock

import (
	"context"
	"time"
)

const (
	idleAfter  = time.Hour   // how long a free name's row is kept
	sweepEvery = time.Second // how often a run of rows is looked at
	sweepRound = time.Minute // how long all is left alone then
	sweepRun   = 200         // how many rows a run has

	// sweepPatience bounds a run: a row that is to go may be held by a transaction
	// of a user's that does not end, and a beat must not wait for that.
	sweepPatience = 500 * time.Millisecond
)

// sweep is how far the sweeping has come; guarded by the engine's mu.
type sweep struct {
	next         time.Time // not before
	head, record string    // looked at up to here; "" starts over
	underWay     bool
}

// sweepSome looks at the next run of head rows and of records and removes, by
// exact key and only if it is still so, what is idle or has ended. It rides on
// beats and stores, so it costs each of them little and needs no goroutine.
// What fails is left for the next round.
func (e *Engine) sweepSome(ctx context.Context) {
	now := time.Now()
	e.mu.Lock()
	w := e.sweep
	if w.underWay || now.Before(w.next) || e.closed {
		e.mu.Unlock()
		return
	}
	e.sweep.underWay = true
	e.mu.Unlock()

	ctx, cancel := context.WithTimeout(ctx, sweepPatience)
	defer cancel()
	w.head = e.sweepHeads(ctx, w.head)
	w.record = e.sweepRecords(ctx, w.record)
	w.next = now.Add(sweepEvery)
	if w.head == "" && w.record == "" {
		w.next = now.Add(sweepRound)
	}

	e.mu.Lock()
	defer e.mu.Unlock()
	e.sweep = w
}

// sweepBeside is sweepSome for one who has a transaction open, which might be what
// the sweep would have to wait for.
func (e *Engine) sweepBeside() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed || e.sweep.underWay || time.Now().Before(e.sweep.next) {
		return
	}
	e.tasks.Go(func() { e.sweepSome(e.begun) })
}

// Sweep looks at every name and every record now, and removes what has been
// idle for an hour or has ended. Beats do the same, little by little.
func (e *Engine) Sweep(ctx context.Context) error {
	head, record := e.sweepHeads(ctx, ""), e.sweepRecords(ctx, "")
	for ctx.Err() == nil && (head != "" || record != "") {
		if head != "" {
			head = e.sweepHeads(ctx, head)
		}
		if record != "" {
			record = e.sweepRecords(ctx, record)
		}
	}
	return ctx.Err()
}

// sweepHeads returns where to go on, "" at the end or where it failed.
func (e *Engine) sweepHeads(ctx context.Context, from string) string {
	a := &Args{}
	a.text[Name] = from
	a.setDuration(TTL, idleAfter)
	a.set(Count, sweepRun)
	var last string
	var free, dirty []string
	n := 0
	err := e.d.Store.Read(ctx, &Step{Query: e.q.idle, Args: a, Row: func(r Row) error {
		var verdict int64
		err := r.Scan(&last, &verdict)
		switch n++; verdict {
		case 1:
			free = append(free, last)
		case 2:
			dirty = append(dirty, last)
		}
		return err
	}})
	if err != nil {
		return ""
	}
	for _, key := range dirty {
		_ = e.settle(ctx, key) // the row goes when it has been idle
	}
	e.remove(ctx, e.q.sweep, free, e.q.alone, e.q.mark)
	if n < sweepRun {
		return ""
	}
	return last
}

func (e *Engine) sweepRecords(ctx context.Context, from string) string {
	a := &Args{}
	a.text[Name] = from
	a.set(Count, sweepRun)
	var last string
	var ended []string
	n := 0
	err := e.d.Store.Read(ctx, &Step{Query: e.q.stale, Args: a, Row: func(r Row) error {
		var over int64
		err := r.Scan(&last, &over)
		if n++; over != 0 {
			ended = append(ended, last)
		}
		return err
	}})
	if err != nil {
		return ""
	}
	e.remove(ctx, e.q.forget, ended)
	if n < sweepRun {
		return ""
	}
	return last
}

// remove removes rows one by one, in a flight that does first what must come before.
// It waits for nobody: what cannot be had is left for the next round.
func (e *Engine) remove(ctx context.Context, q *Query, keys []string, before ...*Query) {
	if len(keys) == 0 {
		return
	}
	all := &Args{list: make([]*Args, len(keys))}
	f := Flight{Tries: true}
	for _, first := range before {
		if first.Text != "" {
			f.Steps = append(f.Steps, Step{Query: first, Args: all})
		}
	}
	for i, key := range keys {
		a := &Args{}
		a.text[Name] = key
		a.setDuration(TTL, idleAfter)
		all.list[i] = a
		f.Steps = append(f.Steps, Step{Query: q, Args: a})
	}
	_ = e.d.Store.Run(ctx, &f)
}
