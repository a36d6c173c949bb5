package sqlite

import (
	"context"
	"errors"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/ncruces/go-sqlite3"

	"github.com/pawl-go/pawl/driver"
)

// Another SQLite library in this process takes POSIX locks. Those belong to the process:
// when it closes any descriptor of a file, the kernel drops all its locks on that file,
// those of the other library included, which does not notice. The next process that
// closes the file then finds no lock, copies the log into the file and deletes it, while
// the other library goes on committing into the deleted log.
//
// So nothing is closed while there are such locks: a connection is kept, idle, and the
// next engine on the file uses it; a descriptor is kept until a later close finds the
// locks gone. The other library may still open the file between the check and the close;
// the documentation says to open pawl first and to close it last.
var deferredCloses struct {
	mu   sync.Mutex // guards kept, and every close of a connection or descriptor
	kept []deferredClose
}

type deferredClose struct {
	io.Closer
	file os.FileInfo   // of the database
	db   *sqlite3.Conn // nil: it cannot be used again
}

// errOtherLibrary is the error of an Open in the wrong order. Without it SQLite would try
// for many seconds: our library takes the other's lock on the shared memory, about which
// a process cannot ask itself, for that of a process that is just making it.
var errOtherLibrary = errors.New("another SQLite library of this program has the file open: " +
	"open pawl before it, use github.com/ncruces/go-sqlite3 for both, or give pawl a file of its own")

// openDB opens a connection to the file at path, or uses one that was kept.
func openDB(ctx context.Context, path string) (*sqlite3.Conn, os.FileInfo, error) {
	if file, err := os.Stat(path); err == nil {
		if db := takeKept(file); db != nil {
			_, err := db.Config(sqlite3.DBCONFIG_NO_CKPT_ON_CLOSE, false)
			if err = driver.Join(err, db.Exec("PRAGMA query_only = OFF")); err != nil {
				return nil, nil, driver.Join(err, closeDB(db, file, false))
			}
			return db, file, nil
		}
		if posix, ofd := locksOn(file); posix && !ofd {
			return nil, nil, errOtherLibrary
		}
	}
	db, err := sqlite3.OpenContext(ctx, fileURL(path))
	if err != nil {
		return nil, nil, err
	}
	file, err := os.Stat(path) // it exists by now
	if err != nil {
		return nil, nil, driver.Join(err, db.Close())
	}
	return db, file, nil
}

// fileURL returns the path as a URL: in a plain path SQLite would find parameters.
func fileURL(path string) string {
	return (&url.URL{Scheme: "file", Path: filepath.ToSlash(path)}).String()
}

// closeDB closes a connection, or keeps it; a read-only one cannot be used again.
func closeDB(db *sqlite3.Conn, file os.FileInfo, readOnly bool) error {
	d := deferredClose{Closer: db, file: file}
	if !readOnly {
		d.db = db
	}
	var err error
	if !db.GetAutocommit() { // a kept connection must not keep its transaction
		err = db.Exec("ROLLBACK")
	}
	return driver.Join(err, closeOrKeep(d))
}

// closeFileOf closes a descriptor of a database, its log or its shared memory, or keeps
// it. The descriptor must have no lock, which would block others.
func closeFileOf(file os.FileInfo, f *os.File) error {
	return closeOrKeep(deferredClose{Closer: f, file: file})
}

// closeOrKeep keeps d, and closes everything that need not be kept.
func closeOrKeep(d deferredClose) error {
	deferredCloses.mu.Lock()
	defer deferredCloses.mu.Unlock()
	var errs []error
	deferredCloses.kept = append(deferredCloses.kept, d)
	deferredCloses.kept = slices.DeleteFunc(deferredCloses.kept, func(d deferredClose) bool {
		if posix, _ := locksOn(d.file); posix {
			return false
		}
		errs = append(errs, d.Close())
		return true
	})
	return driver.Join(errs...)
}

// takeKept returns a kept connection to a file, or nil.
func takeKept(file os.FileInfo) *sqlite3.Conn {
	deferredCloses.mu.Lock()
	defer deferredCloses.mu.Unlock()
	i := slices.IndexFunc(deferredCloses.kept, func(d deferredClose) bool { return d.db != nil && os.SameFile(d.file, file) })
	if i < 0 {
		return nil
	}
	db := deferredCloses.kept[i].db
	deferredCloses.kept = slices.Delete(deferredCloses.kept, i, i+1)
	return db
}
