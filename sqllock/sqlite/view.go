package sqlite

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/ncruces/go-sqlite3"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/sqllock"
)

//go:embed view.sql
var viewSQL string

// A view reads a file and leaves it, and what is beside it, as it is: it joins no
// census, ends nobody's claims and does not put the file on its clock. What a
// writer would end first, it does not show.
//
// A file that somebody has open is read where it is: log and shared memory are
// there. One that nobody has open would have to be given them, which the next one
// to come might then not be allowed to open, so a copy is read.
type view struct {
	path   string
	clock  clock
	census *census
	ends   chan struct{} // closed by close

	turn chan struct{} // holds a value while what follows is in use
	c    *conn         // nil if it was not opened, or closed again
	copy *replica      // what c reads; nil: the file itself
	void bool          // while c reads: no claim stands, they are of a clock that exists no more
	gone map[string]bool
}

var _ sqllock.Store = (*view)(nil)

var errReadOnly = fmt.Errorf("%w: sqlite: the file was opened to be read only", driver.ErrDenied)

// Run refuses every flight.
func (v *view) Run(context.Context, *sqllock.Flight) error { return errReadOnly }

// Read carries out a statement.
func (v *view) Read(ctx context.Context, step *sqllock.Step) error {
	select {
	case v.turn <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("%w: the connection is in use: %w", driver.ErrUnreachable, ctx.Err())
	}
	defer func() { <-v.turn }()
	select {
	case <-v.ends:
		return errClosed
	default:
	}
	return classify(v.read(ctx, step))
}

func (v *view) read(ctx context.Context, step *sqllock.Step) error {
	if err := v.connect(ctx); err != nil {
		return err
	}
	return v.c.retry(ctx, func() (err error) {
		// The claims and the clock that they are on are of one moment.
		if err := v.c.db.Exec("BEGIN"); err != nil {
			return err
		}
		defer func() { err = driver.Join(err, v.c.db.Exec("ROLLBACK")) }()
		t, err := v.c.judge(v.census)
		if err != nil {
			return err
		}
		v.void = t == ended
		clear(v.gone)
		_, err = v.c.step(step, v.c.now())
		return err
	})
}

// connect sees to it that c reads the file as it is now.
func (v *view) connect(ctx context.Context) error {
	if v.c != nil {
		if v.copy == nil && v.c.moved() == nil || v.copy != nil && v.copy.current() {
			return nil
		}
		if err := v.disconnect(); err != nil {
			return err
		}
	}
	for n := 0; ; n++ {
		err := v.open(ctx)
		if err == nil || !errors.Is(err, sqlite3.BUSY) {
			return err
		}
		if err := nap(ctx, v.ends, n); err != nil {
			return fmt.Errorf("%w: the file is busy: %w", driver.ErrUnreachable, err)
		}
	}
}

// open makes c, or fails with BUSY if the file changed hands meanwhile.
func (v *view) open(ctx context.Context) (err error) {
	file, err := os.Stat(v.path)
	if err != nil {
		return fmt.Errorf("there is no store, and none was made: %w", err)
	}
	if posix, _ := locksOn(file); posix {
		return errForeign
	}
	used, done, err := inUse(v.path)
	if err != nil {
		return err
	}
	defer done()
	path, flags := v.path, sqlite3.OPEN_READONLY
	if !used {
		if v.copy, err = replicate(v.path, file); err != nil {
			return err
		}
		path, flags = v.copy.path(), sqlite3.OPEN_READWRITE
	}
	defer func() {
		if err != nil {
			err = driver.Join(err, v.disconnect())
		}
	}()
	// That of a copy may be closed while another library has the file.
	if file, err = os.Stat(path); err != nil {
		return err
	}
	db, err := sqlite3.OpenFlags(fileURL(path), flags|sqlite3.OPEN_URI)
	if err != nil {
		return err
	}
	v.c = &conn{db: db, file: file, reads: true, turn: make(chan struct{}, 1), ends: v.ends, clock: v.clock}
	return v.prepare()
}

// prepare makes the views that the statements read instead of the tables.
func (v *view) prepare() error {
	if _, err := v.c.db.Config(sqlite3.DBCONFIG_NO_CKPT_ON_CLOSE, true); err != nil {
		return err
	}
	switch version, err := v.c.schemaVersion(); {
	case err != nil:
		return err
	case version == 0:
		return errors.New("sqlite: the file has no tables of pawl's: nothing was ever locked in it")
	case version != schemaVersion:
		return versionError(version)
	}
	if err := v.c.find(); err != nil {
		return err
	}
	if err := v.c.db.CreateFunction("pawl_gone", 1, 0, func(ctx sqlite3.Context, arg ...sqlite3.Value) {
		ctx.ResultBool(v.isGone(arg[0].Text()))
	}); err != nil {
		return err
	}
	return v.c.db.Exec(viewSQL)
}

// isGone reports whether the claims of a process stand no more.
func (v *view) isGone(live string) bool {
	if v.void || live == "" {
		return v.void
	}
	gone, known := v.gone[live]
	if !known {
		gone = v.census.life(live) == dead
		v.gone[live] = gone
	}
	return gone
}

func (v *view) disconnect() error {
	err := v.c.close(nil)
	v.c = nil
	if v.copy != nil {
		err = driver.Join(err, os.RemoveAll(v.copy.dir))
		v.copy = nil
	}
	return err
}

func (v *view) close() error {
	close(v.ends)
	v.turn <- struct{}{}
	defer func() { <-v.turn }()
	return v.disconnect()
}

// viewEvery is how often a view looks, for those who watch.
const viewEvery = 50 * time.Millisecond

func (v *view) attend(ctx context.Context, waiting sqllock.Waiters) {
	for waiting.Wanted(ctx) == nil {
		_ = waiting.Look(ctx) // repeated soon
		select {
		case <-time.After(viewEvery):
		case <-ctx.Done():
			return
		}
	}
}
