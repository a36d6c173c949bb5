package mysql

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"sync"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/sqllock"
)

// A source is where connections come from.
type source interface {
	// with runs fn on a connection that is fn's alone meanwhile.
	with(ctx context.Context, u use, fn func(*sql.Conn) error) error

	// stmt returns a statement that the server has read already, or nil where
	// connections are not ours to keep it on.
	stmt(ctx context.Context, q *sqllock.Query, text string) (*sql.Stmt, error)

	// spare returns what tells whether a connection is free beside those that the
	// user's transactions have; nil where these do not come from here.
	spare() func() bool

	// usable refuses what cannot work, before the first flight.
	usable() error

	close() error
}

// A use says what a connection is wanted for.
type use int

const (
	work  use = iota
	beats     // must not wait behind the user's own work
	waits     // may wait for a row, behind which beats must not wait
)

func useOf(f *sqllock.Flight) use {
	switch {
	case f.Waits:
		return waits
	case f.Beat:
		return beats
	}
	return work
}

// own are two pools of our own: one for beats, so that they never wait.
type own struct {
	db, beats *sql.DB
	stmts     sync.Map // *sqllock.Query to *sql.Stmt, of db; they end with it
}

func (o *own) stmt(ctx context.Context, q *sqllock.Query, text string) (*sql.Stmt, error) {
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

func (o *own) with(ctx context.Context, u use, fn func(*sql.Conn) error) error {
	if u == work {
		return onConn(ctx, o.db, fn)
	}
	return onConn(ctx, o.beats, fn) // one at a time waits there, and two are left
}

func (o *own) spare() func() bool { return nil }
func (o *own) usable() error      { return nil }
func (o *own) close() error       { return driver.Join(o.db.Close(), o.beats.Close()) }

// foreign is the user's pool, of which one connection is kept for beats.
type foreign struct {
	db *sql.DB

	mu   sync.Mutex // held while the kept connection is in use
	kept *sql.Conn  // nil until it is first needed, and after it broke
}

func (*foreign) stmt(context.Context, *sqllock.Query, string) (*sql.Stmt, error) { return nil, nil }

func (f *foreign) usable() error {
	if f.db.Stats().MaxOpenConnections == 1 {
		return fmt.Errorf("%w: mysql: the *sql.DB is limited to one connection, and one is kept for beats: allow at least two", driver.ErrUnsupported)
	}
	return nil
}

func (f *foreign) spare() func() bool {
	return func() bool {
		s := f.db.Stats()
		return s.MaxOpenConnections == 0 || s.InUse < s.MaxOpenConnections
	}
}

func (f *foreign) with(ctx context.Context, u use, fn func(*sql.Conn) error) error {
	switch u {
	case work:
		return onConn(ctx, f.db, fn)
	case waits:
		return onConn(ctx, f.db, func(c *sql.Conn) error { return waiting(ctx, c, fn) })
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for fresh := false; ; {
		if f.kept == nil {
			c, err := f.db.Conn(ctx)
			if err != nil {
				return &connectError{err}
			}
			f.kept, fresh = c, true
		}
		err := fn(f.kept)
		if err == nil || !broken(f.kept) {
			return err
		}
		_ = f.kept.Close() // it is broken
		f.kept = nil
		if fresh || !errors.Is(err, sqldriver.ErrBadConn) { // else it was found dead before anything was sent
			return err
		}
	}
}

// waiting runs fn on a connection on which no statement waits for a row much
// longer than its caller does: one that was given up waits on in the server. The
// user does not get the connection back, since it is not as it was.
func waiting(ctx context.Context, c *sql.Conn, fn func(*sql.Conn) error) error {
	if _, err := c.ExecContext(ctx, "SET SESSION innodb_lock_wait_timeout = 1"); err != nil {
		return err
	}
	defer discard(c)
	return fn(c)
}

// broken reports whether a connection cannot be used again.
func broken(c *sql.Conn) bool {
	return c.Raw(func(dc any) error {
		if v, ok := dc.(sqldriver.Validator); ok && !v.IsValid() {
			return sqldriver.ErrBadConn
		}
		return nil
	}) != nil
}

func (f *foreign) close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.kept == nil {
		return nil
	}
	c := f.kept
	f.kept = nil
	return ignoreBad(c.Close())
}

// onConn runs fn on a connection of db. One that was found dead before anything
// was sent is replaced, as database/sql does it.
func onConn(ctx context.Context, db *sql.DB, fn func(*sql.Conn) error) error {
	const tries = 3
	for n := 1; ; n++ {
		c, err := db.Conn(ctx)
		if err != nil {
			return &connectError{err}
		}
		err = fn(c)
		_ = c.Close() // only gives it back
		if n == tries || !errors.Is(err, sqldriver.ErrBadConn) {
			return err
		}
	}
}

func ignoreBad(err error) error {
	if errors.Is(err, sqldriver.ErrBadConn) || errors.Is(err, sql.ErrConnDone) {
		return nil
	}
	return err
}

// A connectError says that no connection was had, so that nothing was sent.
type connectError struct{ err error }

func (e *connectError) Error() string { return e.err.Error() }
func (e *connectError) Unwrap() error { return e.err }
