package sqlite

import (
	"bufio"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/ncruces/go-sqlite3"

	"github.com/pawl-go/pawl/driver"
)

// A snapshot is a copy of a file and its log, taken while no process had the file open, in
// a folder that only this user can read.
type snapshot struct {
	from  string
	dir   string
	infos [2]os.FileInfo // of file and log when they were copied; nil: there was none
}

// path returns the path of the copy.
func (r *snapshot) path() string { return filepath.Join(r.dir, "copy.db") }

// takeSnapshot copies a file that no process has open. It fails with BUSY if a process
// opens the file meanwhile.
func takeSnapshot(path string, file os.FileInfo) (_ *snapshot, err error) {
	r := &snapshot{from: path, infos: infos(path)}
	if r.dir, err = os.MkdirTemp("", "pawl-"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			os.RemoveAll(r.dir)
		}
	}()
	for _, suffix := range []string{"", "-wal"} {
		if err := copyTo(file, path+suffix, r.path()+suffix); err != nil {
			return nil, err
		}
	}
	// If both files are unchanged when they are read again, the copies are of one moment.
	for _, suffix := range []string{"", "-wal"} {
		if same, err := sameBytes(file, path+suffix, r.path()+suffix); err != nil || !same {
			return nil, driver.Join(sqlite3.BUSY, err)
		}
	}
	if !r.isCurrent() {
		return nil, sqlite3.BUSY
	}
	return r, nil
}

// isCurrent reports whether the file is still as it was copied. A file that another
// library of this process has open is not touched: see deferredCloses.
func (r *snapshot) isCurrent() bool {
	file, err := os.Stat(r.from)
	if err != nil {
		return false
	}
	if posix, _ := locksOn(file); posix {
		return false
	}
	used, done, err := isInUse(r.from)
	if err != nil {
		return false
	}
	done()
	for i, now := range infos(r.from) {
		was := r.infos[i]
		if (was == nil) != (now == nil) {
			return false
		}
		if was != nil && (!os.SameFile(was, now) || was.Size() != now.Size() || !was.ModTime().Equal(now.ModTime())) {
			return false
		}
	}
	return !used
}

func infos(path string) (m [2]os.FileInfo) {
	for i, suffix := range []string{"", "-wal"} {
		if info, err := os.Stat(path + suffix); err == nil {
			m[i] = info
		}
	}
	return m
}

// copyTo copies a file of a database, if it exists.
func copyTo(file os.FileInfo, from, to string) error {
	src, err := os.Open(from)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = closeFileOf(file, src) }() // the file was only read
	dst, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(dst, src)
	return driver.Join(err, dst.Close())
}

// sameBytes compares a file of a database and its copy. They are the same if neither
// exists.
func sameBytes(file os.FileInfo, from, to string) (bool, error) {
	fa, erra := os.Open(from)
	if erra == nil {
		defer func() { _ = closeFileOf(file, fa) }() // the file was only read
	}
	fb, errb := os.Open(to)
	if errb == nil {
		defer fb.Close()
	}
	if errors.Is(erra, fs.ErrNotExist) && errors.Is(errb, fs.ErrNotExist) {
		return true, nil
	}
	if erra != nil || errb != nil {
		return false, driver.Join(erra, errb)
	}
	ra, rb := bufio.NewReader(fa), bufio.NewReader(fb)
	for {
		ca, erra := ra.ReadByte()
		cb, errb := rb.ReadByte()
		switch {
		case erra == io.EOF && errb == io.EOF:
			return true, nil
		case erra == io.EOF || errb == io.EOF:
			return false, nil
		case erra != nil || errb != nil:
			return false, driver.Join(erra, errb)
		case ca != cb:
			return false, nil
		}
	}
}
