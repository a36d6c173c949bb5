// Package sqlite is the embedded engine: locks between the processes of one
// machine, in one SQLite file.
//
// It does not reach beyond one machine: all processes must run on one kernel
// and, on Linux, in one time namespace, and must share the file's folder, which
// must be on a local disk: network file systems are refused, and a file that is
// mounted alone. It does not push: a waiter in another process looks every few
// milliseconds. And it does not outlive its disk: after a power cut the last locks
// taken may be forgotten, together with everyone who held them; records are not.
//
// What it does promise: first come first served between all processes on the
// file, tokens that never repeat, expiry on a clock that nobody can set (Linux:
// CLOCK_BOOTTIME; elsewhere the wall clock, so a clock that is set forward ends
// holds early), a restart of the machine that frees everything at once, and on
// systems with flock a holder that was killed is noticed by those who wait or
// try, at once and not at its expiry.
//
// URLs: "sqlite:///absolute/path", "sqlite:relative/path"; ?prefix= puts all
// names and records behind a prefix, ?mode=ro looks and changes nothing,
// ?network=allow uses a file on a network file system in spite of all.
package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"sync"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/sqllock"
)

func init() { driver.Register("sqlite", openURL) }

// Engine keeps lines of claims in a file. It is safe for concurrent use.
type Engine struct {
	*sqllock.Engine
	store  *store // nil if the file is only read
	view   *view  // nil if it is written too
	census *census

	closing sync.Once
	closed  error // what Close found; written once
}

// An Option changes how a file is opened.
type Option func(*options)

type options struct {
	prefix  string
	network bool
	reads   bool
	clock   clock  // nil: the system's
	created func() // see census
}

// Prefix puts all names and record keys behind p, so that several users of one
// file do not meet.
func Prefix(p string) Option { return func(o *options) { o.prefix = p } }

// AllowNetwork uses a file on a network file system. Nothing is promised there.
func AllowNetwork() Option { return func(o *options) { o.network = true } }

// ReadOnly opens a file to look at its locks and records, and leaves it and what
// is beside it as it is: nothing is made, and nobody's claims are ended. A file
// that is not there is an error. To lock is refused, with driver.ErrDenied.
//
// A file that nobody has open is read from a copy, on Linux. If another SQLite
// library of this process opens it then, every look is an error until that has
// closed it.
func ReadOnly() Option { return func(o *options) { o.reads = true } }

// Open opens the file at path, and makes it if it is not there. It may be a
// database of the user's: its tables are left alone, but it is set to SQLite's
// write-ahead log and gets tables whose names begin with pawl_. Beside it come
// the files SQLite itself needs and a folder, path.live, in which every open
// engine keeps one file locked.
//
// If another SQLite library of this process uses the file too, Open must come
// before it; see docs/sql.md.
func Open(ctx context.Context, path string, opts ...Option) (*Engine, error) {
	var o options
	for _, opt := range opts {
		opt(&o)
	}
	e, err := openAt(ctx, path, &o)
	if err == nil {
		return e, nil
	}
	err = classify(err)
	if (errors.Is(err, fs.ErrPermission) || readOnly(err)) && !errors.Is(err, driver.ErrDenied) {
		err = fmt.Errorf("%w: %w", driver.ErrDenied, err)
	}
	return nil, fmt.Errorf("sqlite: open %s: %w", path, err)
}

func openAt(ctx context.Context, path string, o *options) (e *Engine, err error) {
	if path, err = place(path, o.network); err != nil {
		return nil, err
	}
	if o.clock == nil {
		if o.clock, err = systemClock(); err != nil {
			return nil, err
		}
	}
	if o.reads {
		return openView(ctx, path, o)
	}
	err = asOwner(path, func() error {
		e, err = open(ctx, path, o)
		return err
	})
	return e, err
}

func open(ctx context.Context, path string, o *options) (_ *Engine, err error) {
	e := &Engine{store: &store{ends: make(chan struct{})}}
	defer func() {
		if err != nil {
			_, cerr := e.store.close("")
			err = driver.Join(err, cerr, e.census.leave(false)) // no row has named it yet
		}
	}()
	// The own file is locked before the first row can name it.
	if e.census, err = joinCensus(path+".live", o.clock.space(), o.created); err != nil {
		return nil, err
	}
	if err = e.store.open(ctx, path, o.clock, e.census); err != nil {
		return nil, err
	}
	if e.Engine, err = sqllock.New(dialect(e), o.prefix); err != nil {
		return nil, err
	}
	return e, e.buryAll(ctx)
}

func openView(ctx context.Context, path string, o *options) (_ *Engine, err error) {
	e := &Engine{census: &census{dir: path + ".live", space: o.clock.space()}}
	e.view = &view{path: path, clock: o.clock, census: e.census,
		ends: make(chan struct{}), turn: make(chan struct{}, 1), gone: map[string]bool{}}
	if e.Engine, err = sqllock.New(viewDialect(e), o.prefix); err != nil {
		return nil, err
	}
	if err := e.view.connect(ctx); err != nil {
		return nil, driver.Join(err, e.view.close())
	}
	return e, nil
}

// place returns the absolute path, if locks can be trusted there.
func place(path string, network bool) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	// Two names of one file must lead to one folder of liveness files.
	path = resolve(path)
	if hardLinked(path) {
		return "", errors.New("the file has several names (hard links), and SQLite would keep a log for each: remove the others")
	}
	if mounted(path) {
		return "", errors.New("the file is mounted alone, as into a container, and would have a log and locks of its own there: mount the folder that it is in")
	}
	if network {
		return path, nil
	}
	kind, err := networkKind(filepath.Dir(path))
	if err != nil {
		return "", err
	}
	if kind != "" {
		return "", &networkError{path: path, kind: kind}
	}
	return path, nil
}

// resolve follows symbolic links, also those whose end is not there yet.
func resolve(path string) string {
	for range 40 { // as many as Linux follows
		if real, err := filepath.EvalSymlinks(path); err == nil {
			return real
		}
		if real, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
			path = filepath.Join(real, filepath.Base(path))
		}
		to, err := os.Readlink(path)
		if err != nil {
			break
		}
		if !filepath.IsAbs(to) {
			to = filepath.Join(filepath.Dir(path), to)
		}
		path = to
	}
	return path
}

func (s *store) open(ctx context.Context, path string, ck clock, cs *census) (err error) {
	s.path = path
	if s.w, err = openConn(ctx, s.path, ck, s.ends); err != nil {
		return err
	}
	if err = s.w.initialize(ctx, cs); err != nil {
		return err
	}
	return s.w.find()
}

// buryAll ends what processes that died left behind, and their files.
func (e *Engine) buryAll(ctx context.Context) error {
	ids, err := e.census.others()
	if err != nil {
		return err
	}
	for _, id := range ids {
		if _, err := e.Bury(ctx, id); err != nil {
			return err
		}
	}
	return nil
}

// LiveFile is the file whose lock says that this engine is alive; nil if the
// file is only read. A command
// that inherits it, by exec.Cmd's ExtraFiles, keeps the engine's claims from
// being taken for a dead process's until the command has ended too; they still
// expire if nobody beats. The file must not be closed or unlocked by the caller.
func (e *Engine) LiveFile() *os.File { return e.census.file }

// Close ends the engine's sessions with their claims, its goroutine and its
// connections, and lets go of its liveness file.
func (e *Engine) Close() error {
	e.closing.Do(func() {
		err := e.Engine.Close()
		if e.view != nil {
			e.closed = e.view.close() // there are no claims that could not be ended
			return
		}
		named, cerr := e.store.close(e.census.id)
		e.closed = driver.Join(err, cerr, e.census.leave(named))
	})
	return e.closed
}

func openURL(ctx context.Context, u *url.URL) (driver.Engine, error) {
	var opts []Option
	for key, values := range u.Query() {
		switch value := values[len(values)-1]; {
		case key == "prefix":
			opts = append(opts, Prefix(value))
		case key == "mode" && value == "ro":
			opts = append(opts, ReadOnly())
		case key == "mode":
			return nil, driver.BadURL("sqlite: parameter mode makes no sense: known is ro")
		case key == "network" && value == "allow":
			opts = append(opts, AllowNetwork())
		case key == "network":
			return nil, driver.BadURL("sqlite: parameter network makes no sense: known is allow")
		default:
			return nil, driver.BadURL("sqlite: unknown %s (known: prefix, mode, network)", driver.ShowParameter(u, key))
		}
	}
	path := u.Path
	switch {
	case u.Fragment != "":
		return nil, driver.BadURL("sqlite: # begins a fragment in a URL: write %%23")
	case u.User != nil:
		return nil, driver.BadURL("sqlite: a file has no user or password")
	case u.Host != "":
		return nil, driver.BadURL("sqlite: the path begins where a host would stand: write sqlite:///absolute/path or sqlite:relative/path")
	case u.Opaque != "":
		p, err := url.PathUnescape(u.Opaque)
		if err != nil {
			return nil, driver.BadURL("sqlite: the path is not properly escaped")
		}
		path = p
	}
	if path == "" {
		return nil, driver.BadURL("sqlite: the URL has no path: write sqlite:///absolute/path or sqlite:relative/path")
	}
	e, err := Open(ctx, path, opts...)
	if err != nil {
		return nil, err
	}
	return e, nil
}
