package sqllock

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/pawl-go/pawl/driver"
)

// Guards is what a dialect adds to [Guard] and [OnceTx], which work in transactions
// of the user's.
type Guards struct {
	// Query runs a statement in a transaction of a client other than
	// database/sql, reports whether it had a row, and reads that row's one column
	// into value unless that is nil; known is false where tx is not one of its
	// transactions. Nil: there is no such client.
	Query func(ctx context.Context, tx any, text string, args []any, value *[]byte) (row, known bool, err error)

	// Clock is the clock of expiry and Wall that of records, where the client's
	// kernel is the judge. Nil: it is the server.
	Clock, Wall func() int64

	// Busy recognises the error with which the database ends a wait for a row.
	// Nil: it never does.
	Busy func(error) bool

	// Stale recognises the error with which the database refuses a transaction
	// whose view of the row is old. Nil: it never does.
	Stale func(error) bool

	// Undone recognises the error with which the database has ended a transaction
	// as deadlocked. Nil: it never does.
	Undone func(error) bool

	// Spare reports whether a connection can be had beside the one of the user's
	// transaction, where both come from the user's pool. Nil: ours do not.
	Spare func() bool

	// Level has a row if the transaction keeps the view it began with, asked where
	// it does not see the hold. "": no transaction does.
	Level string

	// Seen says that a transaction may have a view from before the lease was
	// granted without the database's minding. It is then looked for.
	Seen bool
}

// sqlTx is a transaction of database/sql, or one that embeds it.
type sqlTx interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	Commit() error
	Rollback() error
}

// Guard ties a transaction to a lease: it returns nil only if the lease is held,
// and from then on until the transaction has ended nobody else is let in, not
// even when the lease's time is over. So whatever the transaction writes, it
// commits as the holder or not at all. After an error the transaction must be
// rolled back.
//
// The transaction must be on the database in which the lease's engine keeps its
// tables, and may be a *sql.Tx, one that embeds it, or what the dialect's own
// client has (pgx.Tx). A lease of several names is guarded for all of them, in
// the order in which they were taken.
//
// Under READ COMMITTED Guard may come anywhere in the transaction; last is best,
// since it holds rows. Under REPEATABLE READ and SERIALIZABLE, and on SQLite, it
// must be the transaction's first statement: it sees to it that the transaction
// does not read what was before the lease, and is refused if it does.
//
// A lease that was passed on inside the process, given back, lost or broken is
// refused: with its own error if it has one, else with driver.ErrGone.
//
// A lease that has guarded is not passed on inside the process: Unlock gives it back
// to the store, which lets nobody in before the transaction has ended. On MySQL,
// MariaDB and SQLite Unlock itself waits for that, so commit first. Transactions
// that are guarded by leases nested in one hold, one after the other, are kept apart
// as well: the later guard waits for the earlier transaction, up to a TTL, and then
// fails with ErrLocked.
func Guard(ctx context.Context, tx any, lease driver.Grant) error {
	if several, ok := lease.(interface{ Grants() []driver.Grant }); ok {
		for _, one := range several.Grants() {
			if err := guardOne(ctx, tx, one); err != nil {
				return err
			}
		}
		return nil
	}
	return guardOne(ctx, tx, lease)
}

func guardOne(ctx context.Context, tx any, lease driver.Grant) error {
	held, err := guardRow(ctx, tx, lease)
	// Now that nobody else can be let in: a lease that ended, or was passed on,
	// while we waited for the row is not to be committed under.
	if ended := lease.Err(); err == nil && ended != nil {
		err = ended
	}
	if err == nil && !held {
		err = fmt.Errorf("%w: the lease is not held any more", driver.ErrGone)
	}
	if err != nil {
		return fmt.Errorf("guard %q: %w", lease.Name(), err)
	}
	return nil
}

func guardRow(ctx context.Context, tx any, lease driver.Grant) (held bool, err error) {
	if err := lease.Err(); err != nil {
		return false, err
	}
	s, c := sessionOf(lease.ID())
	if s == nil {
		return false, fmt.Errorf("%w: the lease is not of an open SQL engine of this process", driver.ErrUnsupported)
	}
	// The hold is pinned before the row is asked for: one that was passed on in
	// between would be guarded for two at a time.
	turn := 0
	if p, ok := lease.(driver.Pinner); ok {
		if turn, err = p.Pin(); err != nil {
			return false, err
		}
	}
	marked, held, err := s.mark(ctx, tx, c, lease, turn)
	if err != nil || !held {
		return false, err
	}
	return s.e.guard(ctx, tx, c, lease.Fence(), marked)
}

func (e *Engine) guard(ctx context.Context, tx any, c driver.Claim, fence uint64, marked int64) (held bool, err error) {
	g := e.d.Guards
	if g == nil {
		return false, fmt.Errorf("%w: %s has no guards", driver.ErrUnsupported, e.d.Name)
	}
	a := e.args(c)
	a.set(Token, int64(fence))
	a.set(Version, marked)
	if g.Clock != nil {
		a.set(Now, g.Clock())
	}
	q, seen := e.q.guard, e.q.guardSeen
	if c.Exclusive() {
		q, seen = e.q.guardX, e.q.guardSeenX
	}
	held, err = g.run(ctx, tx, q, a, nil)
	if err == nil && held && g.Seen {
		var old bool
		if old, err = g.run(ctx, tx, seen, a, nil); err == nil && !old {
			return false, errOldView
		}
	}
	if err == nil && !held && g.Level != "" {
		var keeps bool
		if keeps, err = g.query(ctx, tx, g.Level, nil, nil); err == nil && keeps {
			return false, fmt.Errorf("%w; or the lease is %w", errOldView, driver.ErrGone)
		}
	}
	if err != nil && g.Stale != nil && g.Stale(err) {
		err = fmt.Errorf("%w (%w)", errOldView, err)
	}
	return held, err
}

// errOldView tells what a refusal because of the isolation level means.
var errOldView = fmt.Errorf("%w: the transaction sees the database as it was before the lease was granted or last renewed; "+
	"under this isolation level Guard must be its first statement", driver.ErrUnsupported)

func (g *Guards) run(ctx context.Context, tx any, q *Query, a *Args, value *[]byte) (row bool, err error) {
	args := make([]any, len(q.Params))
	for i, p := range q.Params {
		args[i] = a.Arg(p)
	}
	return g.query(ctx, tx, q.Text, args, value)
}

func (g *Guards) query(ctx context.Context, tx any, text string, args []any, value *[]byte) (row bool, err error) {
	if g.Query != nil {
		if row, known, err := g.Query(ctx, tx, text, args, value); known {
			return row, err
		}
	}
	t, ok := tx.(sqlTx)
	if !ok {
		return false, fmt.Errorf("%w: %T is not a transaction", driver.ErrUnsupported, tx)
	}
	rows, err := t.QueryContext(ctx, text, args...)
	if err != nil {
		return false, err
	}
	defer rows.Close()
	if row = rows.Next(); row && value != nil {
		if err := rows.Scan(value); err != nil {
			return false, err
		}
	}
	for rows.Next() { // to the end, or a statement that writes may not be done
	}
	return row, rows.Err()
}

// open are the engines of this process, for Guard: a lease does not say whose
// it is.
var open = struct {
	mu      sync.Mutex // guards engines
	engines map[*Engine]struct{}
}{engines: map[*Engine]struct{}{}}

// sessionOf finds the session in which a claim was entered.
func sessionOf(id string) (*session, driver.Claim) {
	open.mu.Lock()
	engines := slices.Collect(maps.Keys(open.engines))
	open.mu.Unlock()
	for _, e := range engines {
		if s, c := e.claim(id); s != nil {
			return s, c
		}
	}
	return nil, driver.Claim{}
}

func (e *Engine) claim(id string) (*session, driver.Claim) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for s := range e.sessions {
		s.mu.Lock()
		c, ok := s.claims[id]
		s.mu.Unlock()
		if ok {
			return s, c
		}
	}
	return nil, driver.Claim{}
}

// announce makes the engine known to Guard until it is closed.
func (e *Engine) announce(known bool) {
	open.mu.Lock()
	defer open.mu.Unlock()
	if known {
		open.engines[e] = struct{}{}
	} else {
		delete(open.engines, e)
	}
}
