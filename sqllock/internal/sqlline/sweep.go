package sqlline

import (
	"context"
	"crypto/rand"
	"time"

	"github.com/pawl-go/pawl/driverkit"
	"github.com/pawl-go/pawl/sqllock/internal/sqlstore"
)

const (
	idleAfter = 30 * time.Second // how long the head row of a free name is kept
	sweepPage = 500              // rows in a page

	sweepEvery = 10 * time.Second // the pause between two rounds
	// sweepTurn is for how long a process alone sweeps a store, from when it last said so:
	// over the pause and until the next beat.
	sweepTurn = 30 * time.Second

	// After each page a sweep pauses for as long as the page took, and three times as long
	// if there was little to sweep: it takes half of the time of one connection at most.
	sweepShare  = 1
	searchShare = 3
	sweepPause  = 2 * time.Millisecond // at least

	sweepTimeout = 5 * time.Second // bounds the work on a page
)

// sweepState is how far the sweeps of this process have come; guarded by the engine's mu.
type sweepState struct {
	next    time.Time // not before
	running bool
}

// sweepSoon starts a sweep in the background if it is time for one. Beats, stores and
// OnceTx call it: it costs them nothing else, and they never wait for a sweep.
func (e *Engine) sweepSoon() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.sweep.running || time.Now().Before(e.sweep.next) {
		return
	}
	e.sweep.running = e.sessions.Go(e.sweepRounds) == nil // a closed engine does not sweep
}

// sweepRounds reads all head rows and records, page by page, and deletes, by key and only
// if it is still so, what is idle or has ended. It begins again as long as there are rows
// that will be idle soon: no other call may come in this process. One process sweeps
// a store at a time; the others only look, once in a while, whether one does.
func (e *Engine) sweepRounds(ctx context.Context) {
	t := turn{e: e, id: rand.Text()}
	head, record := cursor{more: true}, cursor{more: true}
	for {
		young := t.take(ctx) && e.sweepRound(ctx, &t, &head, &record)
		if !young || !driverkit.Pause(ctx, sweepEvery) {
			e.mu.Lock()
			defer e.mu.Unlock()
			e.sweep = sweepState{next: time.Now().Add(sweepEvery)}
			return
		}
	}
}

// sweepRound reads every row once, or from where the last round was interrupted, and
// reports whether free rows are left that are not idle yet, or it was interrupted itself.
func (e *Engine) sweepRound(ctx context.Context, t *turn, head, record *cursor) (young bool) {
	for {
		begun := time.Now()
		e.sweepPages(ctx, head, record)
		if young = young || head.young; !head.more && !record.more {
			*head, *record = cursor{more: true}, cursor{more: true}
			return young
		}
		if head.failed || record.failed {
			return true
		}
		share := time.Duration(searchShare)
		if head.found+record.found > sweepPage/4 {
			share = sweepShare
		}
		if !driverkit.Pause(ctx, max(share*time.Since(begun), sweepPause)) || !t.keep(ctx) {
			return false
		}
	}
}

// A cursor is how far a sweep of one table has come.
type cursor struct {
	from   string
	more   bool
	found  int  // rows to delete on the last page
	young  bool // on the last page there were free rows that are not idle yet
	failed bool // it could not be read
}

// sweepPages sweeps the next page of each table that has more.
func (e *Engine) sweepPages(ctx context.Context, head, record *cursor) {
	ctx, cancel := context.WithTimeout(ctx, sweepTimeout)
	defer cancel()
	if head.more {
		e.sweepHeads(ctx, head)
	}
	if record.more {
		e.sweepRecords(ctx, record)
	}
}

// Sweep reads every name and every record now, and deletes what has been idle for long
// or has ended, whoever else sweeps.
func (e *Engine) Sweep(ctx context.Context) error {
	head, record := cursor{more: true}, cursor{more: true}
	for ctx.Err() == nil && (head.more && !head.failed || record.more && !record.failed) {
		e.sweepPages(ctx, &head, &record)
	}
	return ctx.Err()
}

func (e *Engine) sweepHeads(ctx context.Context, at *cursor) {
	const free, expired, young = 1, 2, 3
	found := e.readPage(ctx, e.q.IdleHeads, at)
	at.found, at.young = len(found[free]), len(found[young]) > 0
	e.advanceAll(ctx, found[expired]) // the rows are deleted when they have been idle
	e.deleteRows(ctx, e.q.DeleteHeads, e.q.DeleteHead, found[free], e.q.LockSweep, e.q.SaveFence)
}

func (e *Engine) sweepRecords(ctx context.Context, at *cursor) {
	const ended = 1
	keys := e.readPage(ctx, e.q.EndedRecords, at)[ended]
	at.found = len(keys)
	e.deleteRows(ctx, e.q.DeleteEndedRecords, e.q.DeleteEndedRecord, keys)
}

// readPage returns the names of a page by what the statement says of them.
func (e *Engine) readPage(ctx context.Context, q *sqlstore.Statement, at *cursor) (found map[int64][]string) {
	a := sqlstore.Named(at.from)
	a.SetDuration(sqlstore.TTL, idleAfter)
	a.Num[sqlstore.Count] = sweepPage
	found = map[int64][]string{}
	n := 0
	last := at.from
	err := e.read(ctx, q, a, func(r sqlstore.Row) error {
		var kind int64
		err := r.Scan(&last, &kind)
		found[kind] = append(found[kind], last)
		n++
		return err
	})
	if at.failed = err != nil; at.failed {
		return nil
	}
	at.from, at.more = last, n == sweepPage
	return found
}

// deleteRows deletes rows by key, by one statement for all where the dialect has one, in
// a batch that first runs the statements in before. It does not wait for locks: a locked
// row is left for the next round.
func (e *Engine) deleteRows(ctx context.Context, many, one *sqlstore.Statement, keys []string, before ...*sqlstore.Statement) {
	if len(keys) == 0 {
		return
	}
	all := &sqlstore.Args{List: make([]*sqlstore.Args, len(keys))}
	all.SetDuration(sqlstore.TTL, idleAfter)
	b := lineBatch{}
	b.NoWait = true
	b.add(all, before...)
	b.add(all, many)
	for i, key := range keys {
		all.List[i] = sqlstore.Named(key)
		all.List[i].SetDuration(sqlstore.TTL, idleAfter)
		if many.Empty() {
			b.add(all.List[i], one)
		}
	}
	_ = e.d.Store.Run(ctx, &b.Batch)
}

// A turn is that of one process to sweep. It stands in the row without a name, whose other
// columns of a holder nobody reads.
type turn struct {
	e     *Engine
	id    string
	taken time.Time
}

// take reports whether it took the turn.
func (t *turn) take(ctx context.Context) (mine bool) {
	ctx, cancel := context.WithTimeout(ctx, sweepTimeout)
	defer cancel()
	a := t.args()
	found, left := false, int64(0)
	err := t.e.read(ctx, t.e.q.SweepLeft, a, func(r sqlstore.Row) error { found = true; return r.Scan(&left) })
	if err != nil || left > 0 {
		return false
	}
	begun := time.Now()
	b := lineBatch{}
	b.NoWait = true
	b.add(a, t.e.q.LockSweep)
	if !found {
		b.add(&sqlstore.Args{List: []*sqlstore.Args{sqlstore.Named("")}}, t.e.q.SaveFence)
	}
	b.addRow(a, t.e.q.SweepTurn, func(sqlstore.Row) error { mine = true; return nil })
	if t.e.d.Store.Run(ctx, &b.Batch) != nil || !mine {
		return false
	}
	t.taken = begun
	return true
}

// keep prolongs the turn if half of it is over, and reports whether it is still this
// process's.
func (t *turn) keep(ctx context.Context) bool {
	return time.Since(t.taken) < sweepTurn/2 || t.take(ctx)
}

func (t *turn) args() *sqlstore.Args {
	a := sqlstore.Named("")
	a.Text[sqlstore.Session] = t.id
	a.SetDuration(sqlstore.TTL, sweepTurn)
	return a
}
