package sqlite

import (
	"bytes"
	"crypto/sha256"
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

// suffixes are what the names of file and log end in.
var suffixes = [2]string{"", "-wal"}

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
	var sums [2][]byte
	for i, suffix := range suffixes {
		if sums[i], err = copyTo(file, path+suffix, r.path()+suffix); err != nil {
			return nil, err
		}
	}
	// If both files are unchanged when they are read again, the copies are of one moment.
	for i, suffix := range suffixes {
		if again, err := copyTo(file, path+suffix, ""); err != nil || !bytes.Equal(again, sums[i]) {
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
	for i, suffix := range suffixes {
		if info, err := os.Stat(path + suffix); err == nil {
			m[i] = info
		}
	}
	return m
}

// copyTo copies a file of a database, if it exists, and returns a hash of its bytes. If
// to is "" it only reads the file.
func copyTo(file os.FileInfo, from, to string) (sum []byte, err error) {
	src, err := os.Open(from)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = closeFileOf(file, src) }() // the file was only read
	hash := sha256.New()
	if to == "" {
		_, err = io.Copy(hash, src)
		return hash.Sum(nil), err
	}
	dst, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	_, err = io.Copy(io.MultiWriter(hash, dst), src)
	return hash.Sum(nil), driver.Join(err, dst.Close())
}
