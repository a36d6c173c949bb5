package mysql

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"sync"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/sqllock/internal/sqlstore"
)

// A source is where connections come from.
type source interface {
	// with runs fn on a connection that no other caller uses meanwhile.
	with(ctx context.Context, u use, fn func(*sql.Conn) error) error

	// stmt returns a prepared statement, or nil if the connections are the user's.
	stmt(ctx context.Context, q *sqlstore.Statement, text string) (*sql.Stmt, error)

	// hasSpare is UserTx.HasSpare.
	hasSpare() func() bool

	// usable refuses a source that cannot work, before the first batch.
	usable() error

	close() error
}

// A use says what a connection is for.
type use int

const (
	work     use = iota
	beats        // must not queue behind the user's own work
	rowWaits     // may wait for a row; beats must not queue behind it
)

func useOf(b *sqlstore.Batch) use {
	switch {
	case b.MayBlock:
		return rowWaits
	case b.Beat:
		return beats
	}
	return work
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

func (o *ownSource) with(ctx context.Context, u use, fn func(*sql.Conn) error) error {
	if u == work {
		return onConn(ctx, o.db, fn)
	}
	return onConn(ctx, o.beats, fn) // one beat at a time waits for a row, which leaves two connections
}

func (o *ownSource) hasSpare() func() bool { return nil }
func (o *ownSource) usable() error         { return nil }
func (o *ownSource) close() error          { return driver.Join(o.db.Close(), o.beats.Close()) }

// userSource is the user's pool, of which one connection is kept for beats.
type userSource struct {
	db *sql.DB

	mu   sync.Mutex // held while the kept connection is in use
	kept *sql.Conn  // nil until it is first needed, and after it broke
}

func (*userSource) stmt(context.Context, *sqlstore.Statement, string) (*sql.Stmt, error) {
	return nil, nil
}

func (f *userSource) usable() error {
	if f.db.Stats().MaxOpenConnections == 1 {
		return fmt.Errorf("%w: mysql: the *sql.DB is limited to one connection, and one is kept for beats: allow at least two", driver.ErrUnsupported)
	}
	return nil
}

func (f *userSource) hasSpare() func() bool {
	return func() bool {
		s := f.db.Stats()
		return s.MaxOpenConnections == 0 || s.InUse < s.MaxOpenConnections
	}
}

func (f *userSource) with(ctx context.Context, u use, fn func(*sql.Conn) error) error {
	switch u {
	case work:
		return onConn(ctx, f.db, fn)
	case rowWaits:
		return onConn(ctx, f.db, func(c *sql.Conn) error { return withShortWait(ctx, c, fn) })
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for fresh := false; ; {
		if f.kept == nil {
			c, err := f.db.Conn(ctx)
			if err != nil {
				return err
			}
			f.kept, fresh = c, true
		}
		err := fn(f.kept)
		if err == nil || !isBroken(f.kept) {
			return err
		}
		_ = f.kept.Close() // it is broken
		f.kept = nil
		if fresh || !errors.Is(err, sqldriver.ErrBadConn) { // ErrBadConn: it was found dead before anything was sent
			return err
		}
	}
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

func (f *userSource) close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.kept == nil {
		return nil
	}
	c := f.kept
	f.kept = nil
	err := c.Close()
	if errors.Is(err, sqldriver.ErrBadConn) || errors.Is(err, sql.ErrConnDone) {
		return nil
	}
	return err
}

// onConn runs fn on a connection of db. A connection that was found dead before anything
// was sent is replaced, as database/sql does it.
func onConn(ctx context.Context, db *sql.DB, fn func(*sql.Conn) error) error {
	const attempts = 3
	for n := 1; ; n++ {
		c, err := db.Conn(ctx)
		if err != nil {
			return err
		}
		err = fn(c)
		_ = c.Close() // returns it to the pool
		if n == attempts || !errors.Is(err, sqldriver.ErrBadConn) {
			return err
		}
	}
}
