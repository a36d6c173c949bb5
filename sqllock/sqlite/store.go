package sqlite

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/vfs"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/sqllock"
)

// store is a file with one connection that writes and one that reads.
type store struct {
	path string
	w    *conn
	ends chan struct{} // closed by close

	mu sync.Mutex
	r  *conn // made when first asked for: who takes a free lock reads nothing
}

var _ sqllock.Store = (*store)(nil)

// Run carries out a flight. SQLite lets one transaction write at a time, so a
// flight that has begun is alone on the file, and its clock is read after that.
func (s *store) Run(ctx context.Context, f *sqllock.Flight) error {
	if err := s.w.acquire(ctx); err != nil {
		return err
	}
	defer s.w.release()
	if err := s.w.moved(); err != nil {
		return err
	}
	err := s.w.run(ctx, f)
	if noRoom(err) && s.w.checkpoint() == nil {
		err = s.w.run(ctx, f) // the log begins anew, in the room it has; what failed was undone
	}
	return classify(err)
}

func (c *conn) run(ctx context.Context, f *sqllock.Flight) error {
	switch {
	case f.Durable:
		return c.durably(ctx, f)
	case len(f.Steps) == 1 && !f.Steps[0].Veto:
		return c.retry(ctx, func() error {
			_, err := c.step(&f.Steps[0], c.now())
			return err
		})
	}
	return c.fly(ctx, f)
}

// noRoom reports that a write failed, as it does on a full disk. The log grows
// to some 4 MB before SQLite carries it over by itself, which a small disk may
// not have.
func noRoom(err error) bool {
	return errors.Is(err, sqlite3.FULL) || errors.Is(err, sqlite3.IOERR_WRITE)
}

// checkpoint carries the log over into the file, so that it begins anew.
func (c *conn) checkpoint() error {
	_, _, err := c.db.WALCheckpoint("main", sqlite3.CHECKPOINT_RESTART)
	return err
}

var errMoved = errors.New("sqlite: the file was removed or replaced while it was in use; nothing is known of its locks any more")

// moved reports that the file or its log is no longer what its name leads to:
// whoever opens the name now gets another, and nothing said here binds them.
// SQLite does not notice by itself. The answer is no loss of the session, which
// the core would answer by opening the next: holders end at their deadline.
func (c *conn) moved() error {
	for _, f := range c.files {
		if gone, err := f.HasMoved(); err != nil || gone {
			return driver.Join(errMoved, err)
		}
	}
	return nil
}

// find keeps the file and its log at hand.
func (c *conn) find() error {
	for _, op := range []sqlite3.FcntlOpcode{sqlite3.FCNTL_FILE_POINTER, sqlite3.FCNTL_JOURNAL_POINTER} {
		f, err := c.db.FileControl("main", op)
		if err != nil {
			return err
		}
		if m, ok := f.(vfs.FileHasMoved); ok {
			c.files = append(c.files, m)
		}
		c.log, _ = f.(vfs.File) // the last one asked for
	}
	return nil
}

// Read carries out a statement on the connection that reads: what a flight of
// this process has committed is seen by the next statement there.
func (s *store) Read(ctx context.Context, step *sqllock.Step) error {
	r, err := s.reader(ctx)
	if err != nil {
		return err
	}
	defer r.release()
	return classify(r.retry(ctx, func() error {
		_, err := r.step(step, r.now())
		return err
	}))
}

// reader waits for the turn of the connection that reads.
func (s *store) reader(ctx context.Context) (*conn, error) {
	r, err := s.readers(ctx)
	if err != nil {
		return nil, classify(err)
	}
	return r, r.acquire(ctx)
}

// readers returns the connection that reads, and makes it for the first caller.
func (s *store) readers(ctx context.Context) (_ *conn, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.ends:
		return nil, errClosed
	default:
	}
	if s.r != nil {
		return s.r, nil
	}
	r, err := openConn(ctx, s.path, s.w.clock, s.ends)
	if err != nil {
		return nil, err
	}
	if err := r.db.Exec("PRAGMA query_only = ON"); err != nil {
		return nil, driver.Join(err, r.close(nil))
	}
	s.r = r
	return r, nil
}

// version changes whenever anybody else's connection has committed.
func (s *store) version(ctx context.Context) (int64, error) {
	r, err := s.reader(ctx)
	if err != nil {
		return 0, err
	}
	defer r.release()
	if err := r.prepare(&r.version, versionText); err != nil {
		return 0, classify(err)
	}
	st := r.version
	var v int64
	if st.Step() {
		v = st.ColumnInt64(0)
	}
	err = st.Err()
	_ = st.Reset() // repeats the error of Step
	return v, classify(err)
}

// close ends what waits for other processes, then the connections, and reports
// whether rows still name the process: it is asked when nothing can be written
// here any more. It is called once.
func (s *store) close(live string) (named bool, err error) {
	s.mu.Lock()
	close(s.ends)
	r := s.r
	s.mu.Unlock()
	err = r.close(nil)
	return named, driver.Join(err, s.w.close(func() {
		named = s.w.names(live)
		s.w.leaveLog()
	}))
}

// smallLog is how much of a log may stay behind: what the next to open the file
// reads in a fraction of a millisecond.
const smallLog = 128 << 10

// leaveLog keeps a small log from being carried over into the file when the
// last connection ends, which costs four syncs of the disk: a command that
// takes a lock for a moment would mostly wait for them.
func (c *conn) leaveLog() {
	if c.log == nil {
		return
	}
	if size, err := c.log.Size(); err == nil && size <= smallLog {
		_, _ = c.db.Config(sqlite3.DBCONFIG_NO_CKPT_ON_CLOSE, true) // without it the syncs are paid
	}
}

// fly runs a flight between BEGIN IMMEDIATE and COMMIT.
func (c *conn) fly(ctx context.Context, f *sqllock.Flight) error {
	if err := c.retry(ctx, func() error { return c.exec(&c.begin, beginText) }); err != nil {
		return err
	}
	at := c.now()
	for i := range f.Steps {
		ok, err := c.step(&f.Steps[i], at)
		if err != nil || !ok {
			f.Vetoed = err == nil
			if c.db.GetAutocommit() { // SQLite has undone it itself, as when the disk is full
				return err
			}
			return driver.Join(err, c.exec(&c.rollback, rollbackText))
		}
	}
	err := c.exec(&c.commit, commitText)
	if err != nil && !c.db.GetAutocommit() {
		// Still open, so nothing of it stands once it is rolled back.
		return driver.Join(notBusy(err), c.exec(&c.rollback, rollbackText))
	}
	return err
}

// durably flies with the log synced before it returns; that also carries down
// what was committed before.
func (c *conn) durably(ctx context.Context, f *sqllock.Flight) (err error) {
	if err := c.exec(&c.full, fullText); err != nil {
		return err
	}
	defer func() { err = driver.Join(err, c.exec(&c.normal, normalText)) }()
	return c.fly(ctx, f)
}

// notBusy keeps a busy commit from being taken for a flight that did not begin.
func notBusy(err error) error {
	if errors.Is(err, sqlite3.BUSY) {
		return fmt.Errorf("%w: commit: %v", driver.ErrUnreachable, err) //nolint:errorlint // hidden, so that nobody sees BUSY
	}
	return err
}

// classify wraps SQLite's errors in the driver's sentinels where one fits.
func classify(err error) error {
	switch {
	case err == nil, errors.Is(err, driver.ErrUnreachable):
		return err
	case errors.Is(err, sqlite3.BUSY), errors.Is(err, sqlite3.LOCKED), errors.Is(err, sqlite3.INTERRUPT),
		errors.Is(err, sqlite3.IOERR), errors.Is(err, sqlite3.PROTOCOL):
		return fmt.Errorf("%w: %w", driver.ErrUnreachable, err)
	case errors.Is(err, sqlite3.PERM), errors.Is(err, sqlite3.READONLY), errors.Is(err, sqlite3.AUTH):
		return fmt.Errorf("%w: %w", driver.ErrDenied, err)
	}
	return err
}
