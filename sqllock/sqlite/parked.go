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

// Another SQLite library in this process takes POSIX locks. Those belong to the
// process: when it closes any descriptor of a file, the kernel drops all its locks
// on that file, those of the other library included, which is not told. Whoever
// then closes the file last finds no lock in the way, carries the log over and
// removes it, while the other library goes on committing into it, for nobody.
//
// So while there are such locks nothing is closed: a connection is kept aside,
// idle, and the next engine on the file takes it; so is a descriptor by which the
// file was copied, which ends with the next that is closed when they are gone.
// Between the look and the close somebody may still come; the documentation says
// to open pawl first and to close it last.
var parked struct {
	mu   sync.Mutex // guards idle, and every close of a connection or descriptor
	idle []parkedFile
}

type parkedFile struct {
	io.Closer
	file os.FileInfo   // of the database
	db   *sqlite3.Conn // nil: of no use to others
}

// errForeign is what an Open in the wrong order is told. Without it SQLite would
// try for many seconds: our library takes the other's lock on the shared memory,
// which its own process cannot be asked about, for that of somebody who is just
// making it.
var errForeign = errors.New("another SQLite library of this program has the file open: " +
	"open pawl before it, use github.com/ncruces/go-sqlite3 for both, or give pawl a file of its own")

// openDB opens a connection to the file at path, or takes one that was kept aside.
func openDB(ctx context.Context, path string) (*sqlite3.Conn, os.FileInfo, error) {
	if file, err := os.Stat(path); err == nil {
		if db := unpark(file); db != nil {
			_, err := db.Config(sqlite3.DBCONFIG_NO_CKPT_ON_CLOSE, false)
			if err = driver.Join(err, db.Exec("PRAGMA query_only = OFF")); err != nil {
				return nil, nil, driver.Join(err, closeDB(db, file, false))
			}
			return db, file, nil
		}
		if posix, ofd := locksOn(file); posix && !ofd {
			return nil, nil, errForeign
		}
	}
	db, err := sqlite3.OpenContext(ctx, fileURL(path))
	if err != nil {
		return nil, nil, err
	}
	file, err := os.Stat(path) // made by now
	if err != nil {
		return nil, nil, driver.Join(err, db.Close())
	}
	return db, file, nil
}

// fileURL is the path as SQLite is told it: in a plain one it would find parameters.
func fileURL(path string) string {
	return (&url.URL{Scheme: "file", Path: filepath.ToSlash(path)}).String()
}

// closeDB ends a connection, or keeps it aside; one that only reads is of no use
// to others.
func closeDB(db *sqlite3.Conn, file os.FileInfo, reads bool) error {
	p := parkedFile{Closer: db, file: file}
	if !reads {
		p.db = db
	}
	var err error
	if !db.GetAutocommit() { // nobody would end it, if it is kept
		err = db.Exec("ROLLBACK")
	}
	return driver.Join(err, park(p))
}

// closeOf closes a descriptor of a database, its log or its shared memory, or
// keeps it aside. It must have no lock, which would be in the way of others.
func closeOf(file os.FileInfo, f *os.File) error {
	return park(parkedFile{Closer: f, file: file})
}

// park keeps p aside, and closes all that need not be kept.
func park(p parkedFile) error {
	parked.mu.Lock()
	defer parked.mu.Unlock()
	var errs []error
	parked.idle = append(parked.idle, p)
	parked.idle = slices.DeleteFunc(parked.idle, func(p parkedFile) bool {
		if posix, _ := locksOn(p.file); posix {
			return false
		}
		errs = append(errs, p.Close())
		return true
	})
	return driver.Join(errs...)
}

func unpark(file os.FileInfo) *sqlite3.Conn {
	parked.mu.Lock()
	defer parked.mu.Unlock()
	i := slices.IndexFunc(parked.idle, func(p parkedFile) bool { return p.db != nil && os.SameFile(p.file, file) })
	if i < 0 {
		return nil
	}
	db := parked.idle[i].db
	parked.idle = slices.Delete(parked.idle, i, i+1)
	return db
}
