package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"time"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/vfs"

	"github.com/pawl-go/pawl/driver"
)

// A fileInUse is a file that SQLite has open.
type fileInUse struct {
	path string
	info os.FileInfo
}

// findFiles stores what the file, its log and its shared memory are. The connection has
// read or written before, so all of them are open, and stay so until it is closed.
func (c *conn) findFiles() error {
	file, err := c.db.FileControl("main", sqlite3.FCNTL_FILE_POINTER)
	if err != nil {
		return err
	}
	all := []any{file}
	// Of a file that another program has set to another mode, a reader has neither log nor
	// shared memory open, and the pointer to the log is to anything.
	if mode := ""; c.readOnly {
		if err := c.query("PRAGMA main.journal_mode", func(s *sqlite3.Stmt) { mode = s.ColumnText(0) }); err != nil || mode != "wal" {
			return driver.Join(err, c.addFiles(all))
		}
	}
	log, err := c.db.FileControl("main", sqlite3.FCNTL_JOURNAL_POINTER)
	if err != nil {
		return err
	}
	c.log, _ = log.(vfs.File)
	all = append(all, log)
	if f, ok := file.(vfs.FileSharedMemory); ok {
		all = append(all, f.SharedMemory())
	}
	return c.addFiles(all)
}

func (c *conn) addFiles(all []any) error {
	if runtime.GOOS == "windows" { // no open file can be removed
		return nil
	}
	for _, x := range all {
		if w, ok := x.(vfs.FileUnwrap); ok {
			x = w.Unwrap()
		}
		f, ok := x.(interface {
			Name() string
			Stat() (os.FileInfo, error)
		})
		if !ok {
			return fmt.Errorf("sqlite: %T is not a file", x)
		}
		info, err := f.Stat()
		if err != nil {
			return err
		}
		c.files = append(c.files, fileInUse{f.Name(), info})
	}
	return nil
}

var errMoved = errors.New("sqlite: the file, its log (-wal) or its shared memory (-shm) was removed or replaced while it was in use; " +
	"nothing is known of its locks any more: end the programs that use it, and start them again")

// checkMoved fails if the file, its log or its shared memory is no longer the one at its
// path: a process that opens the path now gets another one, and does not see claims in
// this one. Without the same shared memory two processes write over each other's part
// of the log. SQLite does not notice by itself. This is not reported as loss of the
// session, since the core would open the next one: holders end at their deadline.
func (c *conn) checkMoved() error {
	for _, f := range c.files {
		if there, err := os.Stat(f.path); err != nil || !os.SameFile(f.info, there) {
			return driver.Join(errMoved, ignoreMissing(err))
		}
	}
	return nil
}

// checkMovedBefore is checkMoved for a batch that has not begun: into a log that others
// have begun anew nothing must be written. It is left out if the last batch has checked
// just now, since the check is a fifth of the cost of taking a free lock.
func (c *conn) checkMovedBefore() error {
	if time.Since(c.checked) < time.Millisecond {
		return nil
	}
	return c.checkMoved()
}

// checkMovedAfter is checkMoved for a batch that was committed. It is the one that
// counts, since the process may have been stopped since the first: what was committed in
// files that are in place now is seen by every process that opens them later.
func (c *conn) checkMovedAfter() error {
	err := c.checkMoved()
	if err == nil {
		c.checked = time.Now()
	}
	return err
}

// abandonMoved keeps the connection, when it is closed, from copying its log into a file
// to which other processes may have written since without its knowledge.
func (c *conn) abandonMoved() {
	if c.checkMoved() != nil {
		_, _ = c.db.Config(sqlite3.DBCONFIG_NO_CKPT_ON_CLOSE, true) // fails for no file that is open
	}
}

// touchEvery is far below the age at which files in temporary folders are removed.
const touchEvery = time.Hour

// touch sets the times of the files in use to now, once in touchEvery: cleaners of
// temporary folders go by them. Writes to shared memory that is mapped do not change
// them in a file system in memory, and the file itself is written only when the log is
// copied into it.
func (c *conn) touch(live *os.File) {
	if time.Since(c.touched) < touchEvery {
		return
	}
	c.touched = time.Now()
	_ = touchFile(live.Name()) // a file of another user that may not be touched is used all the same
	for _, f := range c.files {
		_ = touchFile(f.path)
	}
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
