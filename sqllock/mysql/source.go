package mysql

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"sync"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/sqllock/internal/sqlstore"
)

// A source is where connections come from.
type source interface {
	// with runs fn on a connection that is right for b, and that no other caller uses
	// meanwhile.
	with(ctx context.Context, b *sqlstore.Batch, fn func(*sql.Conn) error) error

	// stmt returns a prepared statement, or nil if the connections are the user's.
	stmt(ctx context.Context, q *sqlstore.Statement, text string) (*sql.Stmt, error)

	// conns is how many connections there may be, beside those of beats; 0: any number.
	conns() int

	// hasSpare is UserTx.HasSpare.
	hasSpare() func() bool

	close() error
}

// ownSource is two pools of our own, one of them for beats, so that they never queue.
type ownSource struct {
	db, beats *sql.DB
	stmts     sync.Map // *sqlstore.Statement to *sql.Stmt, of db; closed with it
}

func (o *ownSource) stmt(ctx context.Context, q *sqlstore.Statement, text string) (*sql.Stmt, error) {
	if s, ok := o.stmts.Load(q); ok {
		return s.(*sql.Stmt), nil
	}
	s, err := o.db.PrepareContext(ctx, text)
	if err != nil {
		return nil, err
	}
	if have, ok := o.stmts.LoadOrStore(q, s); ok {
		return have.(*sql.Stmt), s.Close()
	}
	return s, nil
}

func (o *ownSource) with(ctx context.Context, b *sqlstore.Batch, fn func(*sql.Conn) error) error {
	if b.Beat {
		return onConn(ctx, o.beats, fn) // one beat at a time waits for a row, which leaves two connections
	}
	return onConn(ctx, o.db, fn)
}

func (o *ownSource) conns() int            { return o.db.Stats().MaxOpenConnections }
func (o *ownSource) hasSpare() func() bool { return nil }
func (o *ownSource) close() error          { return driver.Join(o.db.Close(), o.beats.Close()) }

// userSource is the user's pool, of which one connection is kept for beats.
type userSource struct {
	db   *sql.DB
	kept *sqlstore.KeptConn
}

func (*userSource) stmt(context.Context, *sqlstore.Statement, string) (*sql.Stmt, error) {
	return nil, nil
}

func (f *userSource) with(ctx context.Context, b *sqlstore.Batch, fn func(*sql.Conn) error) error {
	switch {
	case b.MayBlock: // other beats must not queue behind it
		return f.onClean(ctx, func(c *sql.Conn) error { return withShortWait(ctx, c, fn) })
	case b.Beat:
		return replaceDead(func() error {
			return f.kept.With(ctx, func(c *sql.Conn) (usable bool, err error) {
				_, left := leftOpen(c)
				if left == nil {
					left = fn(c)
				}
				if isLeftOpen(left) { // by the application, before it was kept
					return false, onCleanConn(ctx, f.db, fn)
				}
				return left == nil || !isBroken(c), left
			})
		})
	}
	return f.onClean(ctx, fn)
}

func (f *userSource) onClean(ctx context.Context, fn func(*sql.Conn) error) error {
	return replaceDead(func() error { return onCleanConn(ctx, f.db, fn) })
}

func (f *userSource) conns() int { return max(f.db.Stats().MaxOpenConnections-1, 0) }

func (f *userSource) hasSpare() func() bool { return f.kept.HasSpare }

func (f *userSource) close() error {
	f.kept.Close()
	return nil
}

// withShortWait runs fn on a connection on which no statement waits for a row much longer
// than its caller: a cancelled statement goes on waiting in the server. The connection is
// not returned to the user, since its setting was changed.
func withShortWait(ctx context.Context, c *sql.Conn, fn func(*sql.Conn) error) error {
	if _, err := c.ExecContext(ctx, "SET SESSION innodb_lock_wait_timeout = 1"); err != nil {
		return err
	}
	defer discard(c)
	return fn(c)
}

// discard keeps a connection from being used again.
func discard(c *sql.Conn) {
	_ = c.Raw(func(any) error { return sqldriver.ErrBadConn })
}

// isBroken reports whether a connection cannot be used again.
func isBroken(c *sql.Conn) bool {
	return c.Raw(func(dc any) error {
		if v, ok := dc.(sqldriver.Validator); ok && !v.IsValid() {
			return sqldriver.ErrBadConn
		}
		return nil
	}) != nil
}

// onConn runs fn on a connection of db.
func onConn(ctx context.Context, db *sql.DB, fn func(*sql.Conn) error) error {
	return replaceDead(func() error {
		c, err := db.Conn(ctx)
		if err != nil {
			return err
		}
		defer c.Close() // returns it to the pool
		return fn(c)
	})
}

// replaceDead runs fn again if its connection was found dead before anything was sent, as
// database/sql does it.
func replaceDead(fn func() error) error {
	const attempts = 3
	for n := 1; ; n++ {
		if err := fn(); n == attempts || !errors.Is(err, sqldriver.ErrBadConn) {
			return err
		}
	}
}
