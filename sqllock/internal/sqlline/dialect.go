package sqlline

import (
	"cmp"
	"context"
	"embed"

	"github.com/pawl-go/pawl/sqllock/internal/sqlstore"
)

// A Dialect is what one database adds to the shared statements and the engine.
type Dialect struct {
	Name string // for errors, as in "sqlite: engine is closed"

	sqlstore.Syntax

	// Files has statements, as sql/name.sql, that replace the shared ones of the same
	// name. Those in Without are left out of every batch.
	Files   embed.FS
	Without []string

	// SeparateHead makes a name's head row in a batch by itself, after the batch that
	// needs it found none: where a transaction that makes a row and then locks others
	// can deadlock.
	SeparateHead bool

	Store  sqlstore.Store
	Remote bool // across a network: a request may arrive after its caller has given up

	// Conns returns how many connections there are for calls, 0 if their number has no
	// limit. Nil: that is not known.
	Conns func() int

	// EachStatement reports whether each statement of a batch is a round trip. Nil: a
	// batch is one.
	EachStatement func() bool

	// Ready checks whether the database can be used, before a session is opened. Nil:
	// that is known.
	Ready func(ctx context.Context) error

	// Listen wakes the waiters of this process when other processes change their
	// lines. The engine starts it once, when the first waiter appears, and ends it by
	// its ctx.
	Listen func(ctx context.Context, w Waiters)

	// Notify tells processes of claims of theirs. It is called after the batch that
	// granted or ended them, and never for waiters of this process. The engine repeats a
	// call that failed. Nil: waiters poll.
	Notify func(ctx context.Context, n Notices) error

	// Tell tells other processes, by their Owner, that claims of theirs were granted or
	// have ended, and those whose claims are the first that wait now. It is called after the batch that did so. Nil: Notify does, or waiters poll.
	Tell func(turns, firsts []string)

	// OneConn runs fn with a ctx under which every batch, and Notify, uses the same
	// connection, so that the second batch of a call does not wait for a connection
	// where the user's work has them all. Its error says that there was no connection,
	// and fn was not run. Nil: each batch takes its own.
	OneConn func(ctx context.Context, fn func(context.Context)) error

	// UserTx runs statements in transactions of the user's; nil: it cannot.
	UserTx *sqlstore.UserTx

	// Owner names this process in the rows it writes, and those that it changes then
	// return it; Liveness knows about the others. Without Liveness a dead process is
	// noticed only when its claims expire.
	Owner    string
	Liveness Liveness

	Examined *sqlstore.Examined // for the store's examiner; nil: it has none
}

// eachStatement reports whether each statement of a batch is a round trip, so that a
// batch that locks several lines would keep them for long.
func (d *Dialect) eachStatement() bool { return d.EachStatement != nil && d.EachStatement() }

// manyConns stands for a number of connections without a limit.
const manyConns = 32

// enterConns is how many claims enter the line of one name at a time: half of the
// connections. They would wait for each other at its head row anyway.
func (d *Dialect) enterConns() int {
	n := manyConns
	if d.Conns != nil {
		n = cmp.Or(d.Conns(), manyConns)
	}
	return max(n/2, 2)
}

// A Liveness knows which processes are dead. A process it does not know counts as
// alive.
type Liveness interface {
	// ProveDead reports whether a process has certainly ended. If so, no process can
	// start under its id until done is called, which says whether all rows of the
	// process are gone; done is nil otherwise.
	ProveDead(owner string) (done func(reaped bool), dead bool)
}
