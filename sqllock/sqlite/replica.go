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

// A replica is a copy of a file and its log, of a moment at which nobody had the
// file open, in a folder that only we can read.
type replica struct {
	from  string
	dir   string
	marks [2]os.FileInfo // of file and log when they were copied; nil: there was none
}

// path is where the copy is.
func (r *replica) path() string { return filepath.Join(r.dir, "copy.db") }

// replicate copies a file that nobody has open. If somebody comes meanwhile it
// fails with BUSY.
func replicate(path string, file os.FileInfo) (_ *replica, err error) {
	r := &replica{from: path, marks: marks(path)}
	if r.dir, err = os.MkdirTemp("", "pawl-"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			os.RemoveAll(r.dir)
		}
	}()
	for _, suffix := range []string{"", "-wal"} {
		if err := copyOver(file, path+suffix, r.path()+suffix); err != nil {
			return nil, err
		}
	}
	// What is the same when it is read again was so at the moment between.
	for _, suffix := range []string{"", "-wal"} {
		if same, err := sameBytes(file, path+suffix, r.path()+suffix); err != nil || !same {
			return nil, driver.Join(sqlite3.BUSY, err)
		}
	}
	if !r.current() {
		return nil, sqlite3.BUSY
	}
	return r, nil
}

// current reports whether the file is still as it was copied. One that another
// library of this process has open is not touched: see parked.
func (r *replica) current() bool {
	file, err := os.Stat(r.from)
	if err != nil {
		return false
	}
	if posix, _ := locksOn(file); posix {
		return false
	}
	used, done, err := inUse(r.from)
	if err != nil {
		return false
	}
	done()
	for i, now := range marks(r.from) {
		was := r.marks[i]
		if (was == nil) != (now == nil) {
			return false
		}
		if was != nil && (!os.SameFile(was, now) || was.Size() != now.Size() || !was.ModTime().Equal(now.ModTime())) {
			return false
		}
	}
	return !used
}

func marks(path string) (m [2]os.FileInfo) {
	for i, suffix := range []string{"", "-wal"} {
		if info, err := os.Stat(path + suffix); err == nil {
			m[i] = info
		}
	}
	return m
}

// copyOver copies a file of a database; one that is not there leaves none.
func copyOver(file os.FileInfo, from, to string) error {
	src, err := os.Open(from)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = closeOf(file, src) }() // it was only read
	dst, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(dst, src)
	return driver.Join(err, dst.Close())
}

// sameBytes compares a file of a database and its copy; two that are not there are
// the same.
func sameBytes(file os.FileInfo, from, to string) (bool, error) {
	fa, erra := os.Open(from)
	if erra == nil {
		defer func() { _ = closeOf(file, fa) }() // it was only read
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
