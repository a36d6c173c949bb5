package sqlite

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"time"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/vfs"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/sqllock/internal/sqlstore"
)

// A conn is one connection with its prepared statements. Callers of one process take
// turns by a channel and not by SQLite's file locks, so SQLITE_BUSY always comes from
// another process.
//
// SQLite's own busy handler is not used. It would sleep inside the statement, with the
// time bound before the sleep, and a claim that expired meanwhile would seem to be alive;
// here every attempt reads the clock again.
type conn struct {
	db       *sqlite3.Conn
	file     os.FileInfo              // of the database, when it was opened
	readOnly bool                     // of the database file
	inUse    chan struct{}            // has a value while the connection is in use
	queue    chan struct{}            // and this one while a caller waits for that who is not ahead of the others
	closing  chan struct{}            // closed by the store's close: no call waits for another process any more
	stmts    map[string]*sqlite3.Stmt // by name, and the connection's own by their text
	clock    clock

	// Of the connection that writes, and of one that only reads a file in place.
	files   []fileInUse
	log     vfs.File
	checked time.Time // when the files were last found to be in place
	touched time.Time // when the times of the files were last set
}

// Statements of the connection itself.
const (
	begin    = "BEGIN IMMEDIATE"
	commit   = "COMMIT"
	rollback = "ROLLBACK"
)

var errClosed = errors.New("sqlite: engine is closed")

func openConn(ctx context.Context, path string, ck clock, closing chan struct{}) (*conn, error) {
	db, file, err := openDB(ctx, path)
	if err != nil {
		return nil, err
	}
	return &conn{db: db, file: file, inUse: make(chan struct{}, 1), queue: make(chan struct{}, 1), closing: closing, clock: ck}, nil
}

// acquire waits until no other caller uses the connection. A caller that is ahead waits for
// one who uses it and one who is next, and not for all who came before.
func (c *conn) acquire(ctx context.Context, ahead bool) error {
	if !ahead {
		if err := take(ctx, c.queue); err != nil {
			return err
		}
		defer func() { <-c.queue }()
	}
	if err := take(ctx, c.inUse); err != nil {
		return err
	}
	if c.db == nil {
		<-c.inUse
		return errClosed
	}
	return nil
}

// take sends a value to a channel that has room for one.
func take(ctx context.Context, c chan struct{}) error {
	select {
	case c <- struct{}{}:
		return nil
	default:
	}
	select {
	case c <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%w: the connection is in use: %w", driver.ErrUnreachable, ctx.Err())
	}
}

func (c *conn) release() { <-c.inUse }

// close waits until no other caller uses the connection, runs last and closes it.
func (c *conn) close(last func()) error {
	if c == nil {
		return nil
	}
	c.inUse <- struct{}{}
	defer c.release()
	if c.db == nil {
		return nil
	}
	if last != nil {
		last()
	}
	for _, s := range slices.Collect(c.db.Stmts()) {
		s.Close()
	}
	db := c.db
	c.db, c.stmts = nil, nil
	return closeDB(db, c.file, c.readOnly)
}

// dataVersion changes whenever another connection has committed.
func (c *conn) dataVersion() (v int64, err error) {
	err = c.query("PRAGMA data_version", func(s *sqlite3.Stmt) { v = s.ColumnInt64(0) })
	return v, err
}

// hasRows reports whether rows have the id owner; true if that cannot be read.
func (c *conn) hasRows(owner string) bool {
	has := true
	_ = c.query(`SELECT EXISTS (SELECT 1 FROM pawl_head WHERE x_live = ?1)
		OR EXISTS (SELECT 1 FROM pawl_claim WHERE live = ?1)`, func(s *sqlite3.Stmt) { has = s.ColumnBool(0) }, owner)
	return has
}

// retry repeats attempt while another process has the file locked, until ctx ends. An
// attempt that was answered SQLITE_BUSY had no effect.
func (c *conn) retry(ctx context.Context, attempt func() error) error {
	begun := time.Now()
	for n := 0; ; n++ {
		err := attempt()
		if !errors.Is(err, sqlite3.BUSY) {
			return err
		}
		if ctx.Err() == nil && n < 16 { // a commit takes some 20 µs
			runtime.Gosched()
			continue
		}
		if err := backoff(ctx, c.closing, begun); err != nil {
			return errBusy(err)
		}
	}
}

// errBusy is the error of a call that gave up, for a reason, while another process had the
// file. Programs tell it from a file that cannot be reached by sqlite3.BUSY.
func errBusy(reason error) error {
	return fmt.Errorf("%w: the file is busy: %w: %w", driver.ErrUnreachable, sqlite3.BUSY, reason)
}

// The shortest and the longest pause between two attempts, before jitter.
const (
	shortPause = 100 * time.Microsecond
	longPause  = 50 * time.Millisecond
)

// backoff sleeps before the next attempt, longer the longer the caller has waited, and
// with jitter, so that processes do not retry in step. The attempts of hundreds of
// processes that retried every millisecond would take the processors from the one that
// has the file, and none would get on.
func backoff(ctx context.Context, closing <-chan struct{}, begun time.Time) error {
	pause := min(max(time.Since(begun)/8, shortPause), longPause)
	t := time.NewTimer(pause/2 + rand.N(pause))
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-closing:
		return errClosed
	}
}

func (c *conn) now() moment {
	return moment{now: c.clock.now(), wall: c.clock.wall()}
}

// step runs one statement. ok is false if the step is required and its row says no.
func (c *conn) step(s *sqlstore.Step, at moment) (ok bool, err error) {
	stmt, err := c.prepare(s.Statement.Name, s.Statement.Text)
	if err != nil {
		return false, fmt.Errorf("statement %s: %w", s.Statement.Name, err)
	}
	if err := bind(stmt, s, at); err != nil {
		return false, err
	}
	ok = true
	rows := 0
	for stmt.Step() {
		rows++
		if s.Required && stmt.ColumnInt64(0) == 0 {
			ok = false
		}
		if s.Row != nil {
			if err := s.Row(row{stmt}); err != nil {
				_ = stmt.Reset()
				return false, err
			}
		}
	}
	err = stmt.Err()
	_ = stmt.Reset() // repeats the error of Step
	if rows > 0 {
		err = hideBusy(err) // its rows were delivered, so it must not be repeated
	}
	return ok, err
}

// hideBusy keeps a busy commit from being taken for a batch that did not begin.
func hideBusy(err error) error {
	if errors.Is(err, sqlite3.BUSY) {
		return fmt.Errorf("%w: commit: %v", driver.ErrUnreachable, err) //nolint:errorlint // errors.Is must not find BUSY
	}
	return err
}

// exec runs a statement of the connection itself that returns nothing.
func (c *conn) exec(text string) error { return c.query(text, nil) }

// query runs a statement of the connection itself and calls row for each of its rows.
func (c *conn) query(text string, row func(*sqlite3.Stmt), args ...string) error {
	s, err := c.prepare(text, text)
	if err != nil {
		return err
	}
	for i, a := range args {
		if err := s.BindText(i+1, a); err != nil {
			return err
		}
	}
	if row == nil {
		return s.Exec()
	}
	for s.Step() {
		row(s)
	}
	err = s.Err()
	_ = s.Reset() // repeats the error of Step
	return err
}

// prepare returns a statement that is prepared when it is first used.
func (c *conn) prepare(key, text string) (*sqlite3.Stmt, error) {
	if s := c.stmts[key]; s != nil {
		return s, nil
	}
	s, _, err := c.db.PrepareFlags(text, sqlite3.PREPARE_PERSISTENT)
	if err != nil {
		return nil, err
	}
	if c.stmts == nil {
		c.stmts = map[string]*sqlite3.Stmt{}
	}
	c.stmts[key] = s
	return s, nil
}
