// Package sqlitebench measures locks in an SQLite file, compared with bare updates
// of a row and with file locks.
package sqlitebench

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/gofrs/flock"
	"github.com/ncruces/go-sqlite3"

	"github.com/pawl-go/pawl/bench/compare"
	"github.com/pawl-go/pawl/bench/pawlclient"
	_ "github.com/pawl-go/pawl/sqllock/sqlite" // sqlite:
)

// Part creates a folder and returns the measurements in it.
func Part(t testing.TB) compare.Part {
	dir, err := os.MkdirTemp("", "sqlitebench")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return compare.Part{
		Name: "sqlite",
		About: append([]string{
			"files on the same machine, synchronous = NORMAL, so that nobody waits for the disk",
			"bare: two UPDATEs of a row by its key, prepared; flock: a lock of a whole file, looked at every millisecond while another has it",
		}, compare.Versions("github.com/ncruces/go-sqlite3", "github.com/gofrs/flock")...),
		Rows: rows(dir),
	}
}

// Openers are the contenders, by name; they work in a folder.
var Openers = map[string]compare.Opener{
	"pawl":                func(dir string) opening { return pawlclient.Open("sqlite://" + filepath.Join(dir, "pawl.db")) },
	"pawl, a client each": func(dir string) opening { return openEach(filepath.Join(dir, "pawl.db")) },
	"bare":                func(dir string) opening { return openBare(filepath.Join(dir, "bare.db")) },
	"flock":               openFlock,
}

type opening = func(context.Context) (compare.Locker, error)

func contenders(dir string, names ...string) (all []compare.Contender) {
	for _, name := range names {
		all = append(all, compare.Contender{Name: name, Open: Openers[name](dir)})
	}
	return all
}

func rows(dir string) []compare.Row {
	return []compare.Row{
		{
			Work: compare.Latency(), Length: 400 * time.Millisecond, Who: contenders(dir, "bare", "pawl", "flock"),
			Bounds: []compare.Bound{{Who: "pawl", Than: "bare", Factor: 3, AtMost: true}},
		},
		{
			Work: compare.Together(goroutines), Length: time.Second, Who: contenders(dir, "pawl", "pawl, a client each"),
			Bounds: []compare.Bound{
				{Who: "pawl", Than: "pawl, a client each", Factor: 20},
				{Who: "pawl", Unit: compare.TogetherSpread, Factor: 1.5, AtMost: true},
			},
		},
		{
			Work: compare.Visitor(goroutines), Length: time.Second, Who: contenders(dir, "pawl"),
			Bounds: []compare.Bound{{Who: "pawl", Unit: 1, Factor: 50_000, AtMost: true}},
		},
		{Work: compare.Processes(16, "sqlite", dir), Length: 500 * time.Millisecond, Who: contenders(dir, "pawl", "flock")},
		{Work: compare.Handoff(10 * time.Millisecond), Length: 500 * time.Millisecond, Who: contenders(dir, "pawl", "flock")},
	}
}

const goroutines = 64

// each uses a client per goroutine, as if each were a process.
type each struct{ idle chan compare.Locker }

func openEach(file string) opening {
	return func(ctx context.Context) (compare.Locker, error) {
		e := &each{make(chan compare.Locker, goroutines)}
		for range goroutines {
			l, err := pawlclient.Open("sqlite://" + file)(ctx)
			if err != nil {
				return nil, errors.Join(err, e.Close())
			}
			e.idle <- l
		}
		return e, nil
	}
}

func (e *each) Close() error {
	var errs []error
	for {
		select {
		case l := <-e.idle:
			errs = append(errs, l.Close())
		default:
			return errors.Join(errs...)
		}
	}
}

func (e *each) Lock(ctx context.Context, name string) (func() error, error) {
	l := <-e.idle
	unlock, err := l.Lock(ctx, name)
	if err != nil {
		e.idle <- l
		return nil, err
	}
	return func() error {
		defer func() { e.idle <- l }()
		return unlock()
	}, nil
}

// bareOn does not exclude anything: it makes the writes that every lock needs.
type bareOn struct {
	db     *sqlite3.Conn
	update *sqlite3.Stmt
	n      int64
}

func openBare(file string) opening {
	return func(context.Context) (compare.Locker, error) {
		db, err := sqlite3.Open("file:" + file)
		if err != nil {
			return nil, err
		}
		b := &bareOn{db: db}
		err = db.Exec(`PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;
			CREATE TABLE IF NOT EXISTS bare (name TEXT PRIMARY KEY NOT NULL, n INTEGER NOT NULL) STRICT, WITHOUT ROWID;
			INSERT OR IGNORE INTO bare VALUES ('bench/latency', 0)`)
		if err == nil {
			b.update, _, err = db.Prepare("UPDATE bare SET n = ?1 WHERE name = ?2")
		}
		if err != nil {
			return nil, errors.Join(err, db.Close())
		}
		return b, nil
	}
}

func (b *bareOn) Close() error { return errors.Join(b.update.Close(), b.db.Close()) }

func (b *bareOn) Lock(_ context.Context, name string) (func() error, error) {
	once := func() error {
		b.n++
		return errors.Join(b.update.BindInt64(1, b.n), b.update.BindText(2, name), b.update.Exec())
	}
	return once, once()
}

// files are file locks, one file per name.
type files struct{ dir string }

func openFlock(dir string) opening {
	return func(context.Context) (compare.Locker, error) { return &files{dir}, nil }
}

func (f *files) Close() error { return nil }

func (f *files) Lock(ctx context.Context, name string) (func() error, error) {
	l := flock.New(filepath.Join(f.dir, filepath.Base(name)+".lock"))
	if _, err := l.TryLockContext(ctx, time.Millisecond); err != nil {
		return nil, err
	}
	return l.Unlock, nil
}
