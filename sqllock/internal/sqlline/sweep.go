package sqlline

import (
	"context"
	"time"

	"github.com/pawl-go/pawl/sqllock/internal/sqlstore"
)

const (
	idleAfter  = time.Hour   // how long the head row of a free name is kept
	sweepEvery = time.Second // how often a page of rows is read
	sweepRound = time.Minute // the pause after all rows were read
	sweepPage  = 200         // rows in a page

	// sweepTimeout bounds the work on a page: a row to be deleted may be locked by a
	// transaction of the user's that does not end, and a beat must not wait for that.
	sweepTimeout = 500 * time.Millisecond
)

// sweepState is how far the sweep has come; guarded by the engine's mu.
type sweepState struct {
	next         time.Time // not before
	head, record string    // read up to here; "" starts over
	running      bool
}

// sweepSome reads the next page of head rows and of records and deletes, by key and only
// if it is still so, what is idle or has ended. Beats and stores call it, so it costs
// each of them little and needs no goroutine. What fails is left for the next round.
func (e *Engine) sweepSome(ctx context.Context) {
	now := time.Now()
	e.mu.Lock()
	w := e.sweep
	if w.running || now.Before(w.next) {
		e.mu.Unlock()
		return
	}
	e.sweep.running = true
	e.mu.Unlock()

	ctx, cancel := context.WithTimeout(ctx, sweepTimeout)
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

// sweepInBackground is sweepSome for a caller that has a transaction open, which the
// sweep might have to wait for.
func (e *Engine) sweepInBackground() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.sweep.running || time.Now().Before(e.sweep.next) {
		return
	}
	_ = e.sessions.Go(e.sweepSome) // a closed engine does not sweep
}

// Sweep reads every name and every record now, and deletes what has been idle for an
// hour or has ended. Beats do the same, page by page.
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

// sweepHeads returns where to continue, "" at the end or after an error.
func (e *Engine) sweepHeads(ctx context.Context, from string) (next string) {
	const free, expired = 1, 2
	a := sqlstore.Named(from)
	a.SetDuration(sqlstore.TTL, idleAfter)
	found, next := e.readPage(ctx, e.q.IdleHeads, a)
	for _, key := range found[expired] {
		_ = e.advance(ctx, key) // the row is deleted when it has been idle
	}
	e.deleteRows(ctx, e.q.DeleteHead, found[free], e.q.LockSweep, e.q.SaveFence)
	return next
}

func (e *Engine) sweepRecords(ctx context.Context, from string) (next string) {
	const ended = 1
	found, next := e.readPage(ctx, e.q.EndedRecords, sqlstore.Named(from))
	e.deleteRows(ctx, e.q.DeleteEndedRecord, found[ended])
	return next
}

// readPage returns the names of a page by what the statement says of them, and the last
// of them if there may be another page.
func (e *Engine) readPage(ctx context.Context, q *sqlstore.Statement, a *sqlstore.Args) (found map[int64][]string, next string) {
	a.Num[sqlstore.Count] = sweepPage
	found = map[int64][]string{}
	n := 0
	var last string
	err := e.read(ctx, q, a, func(r sqlstore.Row) error {
		var kind int64
		err := r.Scan(&last, &kind)
		found[kind] = append(found[kind], last)
		n++
		return err
	})
	switch {
	case err != nil:
		return nil, ""
	case n < sweepPage:
		return found, ""
	}
	return found, last
}

// deleteRows deletes rows by key, in a batch that first runs the statements in before.
// It does not wait for locks: a locked row is left for the next round.
func (e *Engine) deleteRows(ctx context.Context, q *sqlstore.Statement, keys []string, before ...*sqlstore.Statement) {
	if len(keys) == 0 {
		return
	}
	rows := make([]*sqlstore.Args, len(keys))
	for i, key := range keys {
		rows[i] = sqlstore.Named(key)
		rows[i].SetDuration(sqlstore.TTL, idleAfter)
	}
	b := lineBatch{}
	b.NoWait = true
	b.add(&sqlstore.Args{List: rows}, before...)
	for _, a := range rows {
		b.add(a, q)
	}
	_ = e.d.Store.Run(ctx, &b.Batch)
}
