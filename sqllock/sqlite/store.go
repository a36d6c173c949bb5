package sqlite

import (
	"context"
	"errors"
	"fmt"

	"github.com/ncruces/go-sqlite3"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/sqllock"
)

// store is a file with one connection that writes and one that reads.
type store struct {
	w, r *conn
	ends chan struct{} // closed by close
}

var _ sqllock.Store = (*store)(nil)

// Run carries out a flight. SQLite lets one transaction write at a time, so a
// flight that has begun is alone on the file, and its clock is read after that.
func (s *store) Run(ctx context.Context, f *sqllock.Flight) error {
	if err := s.w.acquire(ctx); err != nil {
		return err
	}
	defer s.w.release()
	var err error
	switch {
	case f.Durable:
		err = s.w.durably(ctx, f)
	case len(f.Steps) == 1 && !f.Steps[0].Veto:
		err = s.w.retry(ctx, func() error {
			_, err := s.w.step(&f.Steps[0], s.w.now())
			return err
		})
	default:
		err = s.w.fly(ctx, f)
	}
	return classify(err)
}

// Read carries out a statement on the connection that reads: what a flight of
// this process has committed is seen by the next statement there.
func (s *store) Read(ctx context.Context, step *sqllock.Step) error {
	if err := s.r.acquire(ctx); err != nil {
		return err
	}
	defer s.r.release()
	return classify(s.r.retry(ctx, func() error {
		_, err := s.r.step(step, s.r.now())
		return err
	}))
}

// version changes whenever anybody else's connection has committed.
func (s *store) version(ctx context.Context) (int64, error) {
	if err := s.r.acquire(ctx); err != nil {
		return 0, err
	}
	defer s.r.release()
	st := s.r.version
	var v int64
	if st.Step() {
		v = st.ColumnInt64(0)
	}
	err := st.Err()
	_ = st.Reset() // repeats the error of Step
	return v, classify(err)
}

// close ends what waits for other processes, then the connections, and reports
// whether rows still name the process: it is asked when nothing can be written
// here any more. It is called once.
func (s *store) close(live string) (named bool, err error) {
	close(s.ends)
	err = s.r.close(nil)
	return named, errors.Join(err, s.w.close(func() { named = s.w.names(live) }))
}

// fly runs a flight between BEGIN IMMEDIATE and COMMIT.
func (c *conn) fly(ctx context.Context, f *sqllock.Flight) error {
	if err := c.retry(ctx, c.begin.Exec); err != nil {
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
			return errors.Join(err, c.rollback.Exec())
		}
	}
	err := c.commit.Exec()
	if err != nil && !c.db.GetAutocommit() {
		// Still open, so nothing of it stands once it is rolled back.
		return errors.Join(notBusy(err), c.rollback.Exec())
	}
	return err
}

// durably flies with the log synced before it returns; that also carries down
// what was committed before.
func (c *conn) durably(ctx context.Context, f *sqllock.Flight) (err error) {
	if err := c.full.Exec(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.normal.Exec()) }()
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
