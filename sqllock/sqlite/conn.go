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
	"github.com/pawl-go/pawl/sqllock"
)

// A conn is one connection with its prepared statements. Connections of one
// process take turns by a channel and not by SQLite's file locks, so only other
// processes are ever met as busy.
//
// SQLite's own busy handler is not used. It would sleep inside the statement
// with the time bound before the sleep, and a claim that expired meanwhile would
// look alive; here every attempt reads the clock anew.
type conn struct {
	db    *sqlite3.Conn
	file  os.FileInfo   // of the database, as it was opened
	reads bool          // it was opened to be read only
	turn  chan struct{} // holds a value while the connection is in use
	ends  chan struct{} // closed by the store's close: nobody waits for another process any more
	stmts []*sqlite3.Stmt
	clock clock

	// Of the connection that writes.
	files []vfs.FileHasMoved
	log   vfs.File

	begin, commit, rollback, full, normal, version own
}

// An own is a statement of the connection itself, prepared when it is first used:
// a command that locks once needs two of them.
type own struct{ *sqlite3.Stmt }

const (
	beginText    = "BEGIN IMMEDIATE"
	commitText   = "COMMIT"
	rollbackText = "ROLLBACK"
	fullText     = "PRAGMA synchronous = FULL"
	normalText   = "PRAGMA synchronous = NORMAL"
	versionText  = "PRAGMA data_version"
)

func (c *conn) prepare(o *own, text string) (err error) {
	if o.Stmt == nil {
		o.Stmt, _, err = c.db.Prepare(text)
	}
	return err
}

// exec runs a statement that gives nothing back.
func (c *conn) exec(o *own, text string) error {
	if err := c.prepare(o, text); err != nil {
		return err
	}
	return o.Exec()
}

var errClosed = errors.New("sqlite: engine is closed")

func openConn(ctx context.Context, path string, ck clock, ends chan struct{}) (*conn, error) {
	db, file, err := openDB(ctx, path)
	if err != nil {
		return nil, err
	}
	return &conn{db: db, file: file, turn: make(chan struct{}, 1), ends: ends, clock: ck}, nil
}

// acquire waits for the connection's turn.
func (c *conn) acquire(ctx context.Context) error {
	select {
	case c.turn <- struct{}{}:
	default:
		select {
		case c.turn <- struct{}{}:
		case <-ctx.Done():
			return fmt.Errorf("%w: the connection is in use: %w", driver.ErrUnreachable, ctx.Err())
		}
	}
	if c.db == nil {
		<-c.turn
		return errClosed
	}
	return nil
}

func (c *conn) release() { <-c.turn }

// close waits for the connection's turn and ends it, after last has had a look.
func (c *conn) close(last func()) error {
	if c == nil {
		return nil
	}
	c.turn <- struct{}{}
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
	return closeDB(db, c.file, c.reads)
}

// names reports whether rows name a process; true if that cannot be learnt.
func (c *conn) names(live string) bool {
	s, _, err := c.db.Prepare(`SELECT EXISTS (SELECT 1 FROM pawl_head WHERE x_live = ?1)
		OR EXISTS (SELECT 1 FROM pawl_claim WHERE live = ?1)`)
	if err != nil || s.BindText(1, live) != nil || !s.Step() {
		return true
	}
	return s.ColumnBool(0)
}

// retry repeats attempt while another process has the file, until ctx ends. An
// attempt that was answered busy has done nothing.
func (c *conn) retry(ctx context.Context, attempt func() error) error {
	for n := 0; ; n++ {
		err := attempt()
		if !errors.Is(err, sqlite3.BUSY) {
			return err
		}
		if ctx.Err() == nil && n < 16 { // a commit takes some 20 µs
			runtime.Gosched()
			continue
		}
		if err := nap(ctx, c.ends, n); err != nil {
			return fmt.Errorf("%w: the file is busy: %w", driver.ErrUnreachable, err)
		}
	}
}

// nap sleeps 0.1 to 2 ms, longer by and by and never twice alike, so that
// processes do not come back in step.
func nap(ctx context.Context, ends <-chan struct{}, n int) error {
	most := min(time.Duration(n+1)*100*time.Microsecond, 2*time.Millisecond)
	t := time.NewTimer(100*time.Microsecond + rand.N(most))
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-ends:
		return errClosed
	}
}

// A moment is the clocks as all statements of one flight see them.
type moment struct{ now, wall int64 }

// step runs one statement. A veto is told by ok = false.
func (c *conn) step(s *sqllock.Step, at moment) (ok bool, err error) {
	stmt, err := c.stmt(s.Query)
	if err != nil {
		return false, err
	}
	if err := bind(stmt, s, at); err != nil {
		return false, err
	}
	ok = true
	rows := 0
	for stmt.Step() {
		rows++
		if s.Veto && stmt.ColumnInt64(0) == 0 {
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
	if err != nil && rows > 0 && errors.Is(err, sqlite3.BUSY) {
		// It has told its rows, so it must not be repeated as if untouched.
		err = fmt.Errorf("%w: commit: %v", driver.ErrUnreachable, err) //nolint:errorlint // hidden, so that nobody sees BUSY
	}
	return ok, err
}

func (c *conn) stmt(q *sqllock.Query) (*sqlite3.Stmt, error) {
	for len(c.stmts) <= q.Index {
		c.stmts = append(c.stmts, nil)
	}
	if s := c.stmts[q.Index]; s != nil {
		return s, nil
	}
	s, _, err := c.db.PrepareFlags(q.Text, sqlite3.PREPARE_PERSISTENT)
	if err != nil {
		return nil, fmt.Errorf("statement %s: %w", q.Name, err)
	}
	c.stmts[q.Index] = s
	return s, nil
}

func bind(stmt *sqlite3.Stmt, s *sqllock.Step, at moment) error {
	for i, p := range s.Query.Params {
		var err error
		switch {
		case p == sqllock.Now:
			err = stmt.BindInt64(i+1, at.now)
		case p == sqllock.Wall:
			err = stmt.BindInt64(i+1, at.wall)
		case p.IsText():
			err = stmt.BindText(i+1, s.Args.Text(p))
		case p.IsInt():
			err = stmt.BindInt64(i+1, s.Args.Int(p))
		default:
			err = stmt.BindBlob(i+1, s.Args.Blob())
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// A row is the row a statement stands on.
type row struct{ stmt *sqlite3.Stmt }

func (r row) Scan(dest ...any) error {
	for i, d := range dest {
		switch d := d.(type) {
		case *int64:
			*d = r.stmt.ColumnInt64(i)
		case *string:
			*d = r.stmt.ColumnText(i)
		case *[]byte:
			*d = r.stmt.ColumnBlob(i, []byte{})
		default:
			return fmt.Errorf("sqlite: cannot scan into %T", d)
		}
	}
	return nil
}

func (c *conn) now() moment {
	return moment{now: c.clock.now(), wall: c.clock.wall()}
}
