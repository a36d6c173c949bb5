package sqlstore

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/pawl-go/pawl/driver"
)

var errOneConn = fmt.Errorf("%w: the *sql.DB is limited to one connection, and one is kept for beats: allow at least two",
	driver.ErrUnsupported)

// A ConnectError says that there was no connection, so that nothing was sent.
type ConnectError struct{ Err error }

// Error returns the text of Err.
func (e *ConnectError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *ConnectError) Unwrap() error { return e.Err }

// A KeptConn is one connection of the user's pool that is kept for beats, so that they
// do not queue behind the user's own work. The user's hooks have run on it.
type KeptConn struct {
	db    *sql.DB
	inUse chan struct{} // has room for the one caller that may use kept; stays full after Close
	kept  *sql.Conn     // nil until it is first needed, and after it broke
}

// NewKeptConn returns a KeptConn that takes its connection when it is first used.
func NewKeptConn(db *sql.DB) *KeptConn {
	return &KeptConn{db: db, inUse: make(chan struct{}, 1)}
}

// With runs fn on the kept connection. While another caller uses it, fn gets another
// connection of the pool, or this one, whichever is free first: the other caller may be
// stuck. fn reports whether its connection can be used again.
func (k *KeptConn) With(ctx context.Context, fn func(*sql.Conn) (usable bool, err error)) error {
	select {
	case k.inUse <- struct{}{}:
		return k.onKept(ctx, fn)
	default:
	}
	wait, cancel := context.WithCancel(ctx)
	defer cancel()
	other := k.other(wait)
	select {
	case c := <-other:
		if c.err != nil {
			return &ConnectError{c.err}
		}
		defer c.Close()
		_, err := fn(c.Conn)
		return err
	case k.inUse <- struct{}{}:
		cancel()
		return k.onKept(ctx, fn)
	case <-ctx.Done():
		return &ConnectError{ctx.Err()}
	}
}

// onKept runs fn on the kept connection, for the caller that may use it.
func (k *KeptConn) onKept(ctx context.Context, fn func(*sql.Conn) (bool, error)) error {
	defer func() { <-k.inUse }()
	if k.kept == nil {
		if k.db.Stats().MaxOpenConnections == 1 {
			return errOneConn
		}
		c, err := k.db.Conn(ctx)
		if err != nil {
			return &ConnectError{err}
		}
		k.kept = c
	}
	usable, err := fn(k.kept)
	if !usable {
		_ = k.kept.Close() // a broken one is dropped, another returns to the pool
		k.kept = nil
	}
	return err
}

// A poolConn is a connection of the pool, or why there is none.
type poolConn struct {
	*sql.Conn
	err error
}

// other gets a connection of the pool. If ctx ends before it is received, it goes back.
func (k *KeptConn) other(ctx context.Context) <-chan poolConn {
	got := make(chan poolConn)
	go func() { // ends with ctx
		c, err := k.db.Conn(ctx)
		select {
		case got <- poolConn{c, err}:
		case <-ctx.Done():
			if err == nil {
				_ = c.Close()
			}
		}
	}()
	return got
}

// HasSpare reports whether the pool has a connection that nobody uses, or may open one.
func (k *KeptConn) HasSpare() bool {
	s := k.db.Stats()
	return s.MaxOpenConnections == 0 || s.InUse < s.MaxOpenConnections
}

// Close returns the connection to the pool, once. None is kept after that.
func (k *KeptConn) Close() {
	k.inUse <- struct{}{}
	if k.kept != nil {
		_ = k.kept.Close()
	}
}
