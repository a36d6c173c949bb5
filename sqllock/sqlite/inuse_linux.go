package sqlite

import (
	"errors"
	"io/fs"
	"os"

	"github.com/ncruces/go-sqlite3"
	"golang.org/x/sys/unix"

	"github.com/pawl-go/pawl/driver"
)

// Where SQLite puts its locks: the same in all its libraries, for ever.
const (
	sharedFirst = 0x40000002 // in the file: a shared one while it is open
	sharedSize  = 510
	shmAlive    = 128 // in the shared memory: a shared one while it is mapped
)

// inUse reports whether somebody has the file open, with its log and shared
// memory. Until done nobody removes those: who leaves last does so only if nobody
// else has a lock on the file.
//
// Its descriptors are closed as those of a copy are: see parked.
func inUse(path string) (used bool, done func(), err error) {
	f, err := os.Open(path)
	if err != nil {
		return false, nil, err
	}
	file, err := f.Stat()
	if err != nil {
		return false, nil, driver.Join(err, f.Close())
	}
	lock := unix.Flock_t{Type: unix.F_RDLCK, Start: sharedFirst, Len: sharedSize}
	if err := unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &lock); err != nil {
		_ = closeOf(file, f)
		if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
			err = sqlite3.BUSY // somebody leaves last just now
		}
		return false, nil, err
	}
	done = func() {
		lock.Type = unix.F_UNLCK
		_ = unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &lock)
		_ = closeOf(file, f)
	}
	if used, err = mapped(path, file); err != nil {
		done()
		return false, nil, err
	}
	return used, done, nil
}

// mapped reports whether somebody has the shared memory mapped.
func mapped(path string, file os.FileInfo) (bool, error) {
	if _, err := os.Stat(path + "-wal"); err != nil {
		return false, notThere(err)
	}
	shm, err := os.Open(path + "-shm")
	if err != nil {
		return false, notThere(err)
	}
	defer func() { _ = closeOf(file, shm) }() // it was only read
	lock := unix.Flock_t{Type: unix.F_WRLCK, Start: shmAlive, Len: 1}
	err = unix.FcntlFlock(shm.Fd(), unix.F_OFD_GETLK, &lock)
	return lock.Type != unix.F_UNLCK, err
}

func notThere(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
