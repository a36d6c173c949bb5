// Package sqlite is the embedded engine: locks between the processes of one
// machine, in one SQLite file.
//
// It does not reach beyond one machine: all processes must run on one kernel and, on
// Linux, in one time namespace, and must share the file's folder, which must be on a
// local disk: network file systems are refused, and so is a file that is mounted without
// its folder. Waiters in other processes are told of their turn on Linux, by a socket, if all
// processes on the file are of one user; otherwise they poll every few milliseconds. And
// it does not outlive its disk: after a power cut the last locks taken
// may be forgotten, together with all their holders; records are not.
//
// What it does promise: first come first served between all processes on the file,
// tokens that never repeat, expiry by a clock that cannot be set (Linux: CLOCK_BOOTTIME;
// elsewhere the wall clock, so a clock that is set forward ends holds early), a restart
// of the machine that frees everything at once, and on systems with flock a killed
// holder is noticed at once by waiters and tries, not at its expiry.
//
// URLs: "sqlite:///absolute/path", "sqlite:relative/path"; ?prefix= stores all names and
// records behind a prefix, ?mode=ro reads and changes nothing, ?network=allow uses a file
// on a network file system in spite of all.
package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"sync"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/sqllock/internal/sqlitefile"
	"github.com/pawl-go/pawl/sqllock/internal/sqlline"
	"github.com/pawl-go/pawl/sqllock/internal/sqlstore"
)

// line is what the engines of all dialects share.
type line = sqlline.Engine

// Engine keeps lines of claims in a file. It is safe for concurrent use.
type Engine struct {
	*line
	store    *store    // nil if the engine only reads
	reader   *readOnly // nil if it writes too
	liveness *liveness

	closing sync.Once
	closed  error // the result of Close; written once
}

// An Option changes how a file is opened.
type Option func(*options)

type options struct {
	prefix   string
	network  bool
	readOnly bool
	clock    clock  // without now: the system's
	created  func() // see liveness
}

// WithPrefix stores all names and record keys behind p, so that several users of one
// file do not meet.
func WithPrefix(p string) Option { return func(o *options) { o.prefix = p } }

// WithNetwork permits a file on a network file system. Nothing is promised there.
func WithNetwork() Option { return func(o *options) { o.network = true } }

// WithReadOnly opens a file to show its locks and records, and leaves it and the files
// beside it as they are: none is made, and no claim is ended. A file that does not exist
// is an error. Locking is refused with driver.ErrDenied.
//
// On Linux, a file that no process has open is read from a copy. If another SQLite
// library of this process opens it then, every read is an error until that library has
// closed it.
func WithReadOnly() Option { return func(o *options) { o.readOnly = true } }

// Open opens the file at path, and makes it if it does not exist. It may be a database
// of the user's: the user's tables are left alone, but the file is set to SQLite's
// write-ahead log and gets tables whose names begin with pawl_. Beside it are the files
// SQLite itself needs and a folder, path.live, in which every open engine keeps one file
// locked, and a socket.
//
// If another SQLite library of this process uses the file too, Open must come before it;
// see docs/sql.md.
func Open(ctx context.Context, path string, opts ...Option) (*Engine, error) {
	var o options
	for _, opt := range opts {
		opt(&o)
	}
	e, err := openAt(ctx, path, &o)
	if err == nil {
		return e, nil
	}
	err = explainFull(classify(err), path)
	if (errors.Is(err, fs.ErrPermission) || isReadOnlyFS(err)) && !errors.Is(err, driver.ErrDenied) {
		err = fmt.Errorf("%w: %w", driver.ErrDenied, err)
	}
	return nil, fmt.Errorf("sqlite: open %s: %w", path, err)
}

func openAt(ctx context.Context, path string, o *options) (e *Engine, err error) {
	if path, err = sqlitefile.Check(path, o.network); err != nil {
		return nil, err
	}
	if o.clock.now == nil {
		if o.clock, err = systemClock(); err != nil {
			return nil, err
		}
	}
	if o.readOnly {
		return openReadOnly(ctx, path, o)
	}
	err = asOwner(path, func() error {
		e, err = open(ctx, path, o)
		return err
	})
	return e, err
}

func open(ctx context.Context, path string, o *options) (_ *Engine, err error) {
	e := &Engine{store: &store{closing: make(chan struct{})}}
	defer func() {
		if err != nil {
			_, cerr := e.store.close("")
			err = driver.Join(err, cerr, e.liveness.leave(false)) // no row has its id yet
		}
	}()
	// The own liveness file is locked before the first row can have its id.
	if e.liveness, err = joinLiveness(path+".live", o.clock.namespace, !o.network, o.created); err != nil {
		return nil, err
	}
	if err = e.store.open(ctx, path, o.clock, e.liveness); err != nil {
		return nil, err
	}
	if e.line, err = sqlline.New(dialect(e.store, e.liveness), o.prefix); err != nil {
		return nil, err
	}
	return e, e.reapAll(ctx)
}

func openReadOnly(ctx context.Context, path string, o *options) (_ *Engine, err error) {
	e := &Engine{liveness: &liveness{dir: path + ".live", namespace: o.clock.namespace}}
	e.reader = newReadOnly(path, o.clock, e.liveness)
	d := readOnlyDialect(e.reader)
	d.Examined = &sqlstore.Examined{With: e.reader.examine}
	if e.line, err = sqlline.New(d, o.prefix); err != nil {
		return nil, err
	}
	if err := e.reader.connect(ctx); err != nil {
		return nil, driver.Join(err, e.reader.close())
	}
	return e, nil
}

// maxReaped is how many processes are looked at when a file is opened.
const maxReaped = 50

// reapAll ends the claims of processes that died, and deletes their liveness files. Of
// many it looks at some, others each time: hundreds of processes that start together
// must not all look at each other. Who is in a claim's way is found in any case.
func (e *Engine) reapAll(ctx context.Context) error {
	ids, err := e.liveness.others()
	if err != nil {
		return err
	}
	e.liveness.removeSockets()
	rand.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
	for _, id := range ids[:min(len(ids), maxReaped)] {
		if _, err := sqlline.Reap(ctx, e.line, id); err != nil {
			return err
		}
	}
	return nil
}

// LiveFile returns the file whose lock says that this engine is alive; nil if the engine
// only reads. While a command that inherited it, by exec.Cmd's ExtraFiles, runs, the
// engine's claims are not taken for those of a dead process; without beats they expire
// all the same. The caller must not close or unlock the file.
func (e *Engine) LiveFile() *os.File { return e.liveness.file }

// Close ends the engine's sessions with their claims, its goroutine and its connections,
// and unlocks its liveness file.
func (e *Engine) Close() error {
	e.closing.Do(func() {
		err := e.line.Close()
		if e.reader != nil {
			e.closed = e.reader.close() // there are no claims that could not be ended
			return
		}
		hasRows, cerr := e.store.close(e.liveness.id)
		e.closed = driver.Join(err, cerr, e.liveness.leave(hasRows))
	})
	return e.closed
}
