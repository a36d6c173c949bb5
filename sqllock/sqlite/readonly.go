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
	"github.com/pawl-go/pawl/sqllock/internal/sqlitefile"
	"github.com/pawl-go/pawl/sqllock/internal/sqlstore"
)

//go:embed readonly.sql
var readOnlySQL string

// A readOnly is a store that leaves the file, and the files beside it, as they are: it
// has no liveness file, ends no claims and does not put the file on its clock. It hides
// the claims that a writer would end first.
//
// A file that a process has open is read in place, since its log and shared memory
// exist. Reading a file that no process has open would make them, possibly with an owner
// that keeps the next process from opening them, so a copy is read.
type readOnly struct {
	path     string
	clock    clock
	liveness *liveness
	closing  chan struct{} // closed by close

	inUse chan struct{} // has a value while what follows is in use
	c     *conn         // nil if it is not open
	copy  *snapshot     // what c reads; nil: the file itself
	stale bool          // during a read: no claim stands, their clock is of an earlier boot
	dead  map[string]bool
}

var _ sqlstore.Store = (*readOnly)(nil)

func newReadOnly(path string, ck clock, l *liveness) *readOnly {
	return &readOnly{path: path, clock: ck, liveness: l,
		closing: make(chan struct{}), inUse: make(chan struct{}, 1), dead: map[string]bool{}}
}

var errReadOnly = fmt.Errorf("%w: sqlite: the file was opened to be read only", driver.ErrDenied)

// Run executes a batch that only reads, and refuses every other.
func (r *readOnly) Run(ctx context.Context, b *sqlstore.Batch) error {
	if !b.ReadOnly {
		return errReadOnly
	}
	return r.alone(ctx, func() error { return r.read(ctx, b) })
}

// examine runs fn with the connection, for statements that only read.
func (r *readOnly) examine(ctx context.Context, fn func(sqlstore.Query) error) error {
	return r.alone(ctx, func() error {
		if err := r.connect(ctx); err != nil {
			return err
		}
		return fn(func(ctx context.Context, text string) (rows [][]string, err error) {
			err = r.c.retry(ctx, func() error {
				rows = nil
				return r.c.query(text, func(s *sqlite3.Stmt) {
					var row []string
					for i := range s.ColumnCount() {
						row = append(row, s.ColumnText(i))
					}
					rows = append(rows, row)
				})
			})
			return rows, classify(err)
		})
	})
}

// alone runs fn while no other caller uses the connection.
func (r *readOnly) alone(ctx context.Context, fn func() error) error {
	if err := take(ctx, r.inUse); err != nil {
		return err
	}
	defer func() { <-r.inUse }()
	select {
	case <-r.closing:
		return errClosed
	default:
	}
	return classify(fn())
}

func (r *readOnly) read(ctx context.Context, b *sqlstore.Batch) error {
	if err := r.connect(ctx); err != nil {
		return err
	}
	return r.c.retry(ctx, func() (err error) {
		// One transaction, so that the claims and the clock they are on are read at one
		// moment.
		if err := r.c.db.Exec("BEGIN"); err != nil {
			return err
		}
		defer func() { err = driver.Join(err, r.c.db.Exec("ROLLBACK")) }()
		match, err := r.c.compareClock(r.liveness)
		if err != nil {
			return err
		}
		r.stale = match == goneClock
		clear(r.dead)
		at := r.c.now()
		for i := range b.Steps {
			if _, err := r.c.step(&b.Steps[i], at); err != nil {
				return err
			}
		}
		return nil
	})
}

// connect makes sure that c reads the file as it is now.
func (r *readOnly) connect(ctx context.Context) error {
	if r.c != nil {
		if r.copy == nil && r.c.checkMoved() == nil || r.copy != nil && r.copy.isCurrent() {
			return nil
		}
		if err := r.disconnect(); err != nil {
			return err
		}
	}
	for begun := time.Now(); ; {
		err := r.open()
		if err == nil || !errors.Is(err, sqlite3.BUSY) {
			return err
		}
		if err := backoff(ctx, r.closing, begun); err != nil {
			return errBusy(err)
		}
	}
}

// open makes c. It fails with BUSY if a process opened or closed the file meanwhile.
func (r *readOnly) open() (err error) {
	file, err := os.Stat(r.path)
	if err != nil {
		return fmt.Errorf("there is no store, and none was made: %w", err)
	}
	if posix, _ := locksOn(file); posix {
		return errOtherLibrary
	}
	used, done, err := isInUse(r.path)
	if err != nil {
		return err
	}
	defer done()
	path, flags := r.path, sqlite3.OPEN_READONLY
	if !used {
		if r.copy, err = takeSnapshot(r.path, file); err != nil {
			return err
		}
		path, flags = r.copy.path(), sqlite3.OPEN_READWRITE
	}
	defer func() {
		if err != nil {
			err = driver.Join(err, r.disconnect())
		}
	}()
	// The copy may be closed while another library has the file itself open.
	if file, err = os.Stat(path); err != nil {
		return err
	}
	db, err := sqlite3.OpenFlags(fileURL(path), flags|sqlite3.OPEN_URI)
	if err != nil {
		return err
	}
	r.c = &conn{db: db, file: file, readOnly: true, inUse: make(chan struct{}, 1), closing: r.closing, clock: r.clock}
	return r.prepare()
}

// prepare makes the views that the statements read instead of the tables.
func (r *readOnly) prepare() error {
	if _, err := r.c.db.Config(sqlite3.DBCONFIG_NO_CKPT_ON_CLOSE, true); err != nil {
		return err
	}
	switch version, err := r.c.readVersion(); {
	case err != nil:
		return err
	case version == 0:
		return sqlitefile.ErrNoTables
	case version != sqlitefile.Version:
		return sqlitefile.VersionError(version)
	}
	if err := r.c.findFiles(); err != nil {
		return err
	}
	if err := r.c.db.CreateFunction("pawl_gone", 1, 0, func(ctx sqlite3.Context, arg ...sqlite3.Value) {
		ctx.ResultBool(r.isDead(arg[0].Text()))
	}); err != nil {
		return err
	}
	return r.c.db.Exec(readOnlySQL)
}

// isDead reports whether the claims of a process do not stand any more.
func (r *readOnly) isDead(owner string) bool {
	if r.stale || owner == "" {
		return r.stale
	}
	is, known := r.dead[owner]
	if !known {
		is = r.liveness.state(owner) == dead
		r.dead[owner] = is
	}
	return is
}

func (r *readOnly) disconnect() error {
	err := r.c.close(nil)
	r.c = nil
	if r.copy != nil {
		err = driver.Join(err, os.RemoveAll(r.copy.dir))
		r.copy = nil
	}
	return err
}

func (r *readOnly) close() error {
	close(r.closing)
	r.inUse <- struct{}{}
	defer func() { <-r.inUse }()
	return r.disconnect()
}
