package sqlite

import (
	"errors"
	"os"

	"github.com/ncruces/go-sqlite3"
	"golang.org/x/sys/unix"

	"github.com/pawl-go/pawl/driver"
)

// The byte ranges that SQLite locks, the same in all its libraries.
const (
	sharedFirst = 0x40000002 // in the file: read-locked while it is open
	sharedSize  = 510
	shmAlive    = 128 // in the shared memory: read-locked while it is mapped
)

// isInUse reports whether a process has the file open, with its log and shared memory.
// These are not removed before done is called: the last process removes them only if no
// other has a lock on the file.
//
// The descriptors are closed by closeFileOf: see deferredCloses.
func isInUse(path string) (used bool, done func(), err error) {
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
		_ = closeFileOf(file, f)
		if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
			err = sqlite3.BUSY // the last process is closing the file
		}
		return false, nil, err
	}
	done = func() {
		lock.Type = unix.F_UNLCK
		_ = unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &lock)
		_ = closeFileOf(file, f)
	}
	if used, err = isMapped(path, file); err != nil {
		done()
		return false, nil, err
	}
	return used, done, nil
}

// isMapped reports whether a process has the shared memory mapped.
func isMapped(path string, file os.FileInfo) (bool, error) {
	if _, err := os.Stat(path + "-wal"); err != nil {
		return false, ignoreMissing(err)
	}
	shm, err := os.Open(path + "-shm")
	if err != nil {
		return false, ignoreMissing(err)
	}
	defer func() { _ = closeFileOf(file, shm) }() // the file was only read
	lock := unix.Flock_t{Type: unix.F_WRLCK, Start: shmAlive, Len: 1}
	err = unix.FcntlFlock(shm.Fd(), unix.F_OFD_GETLK, &lock)
	return lock.Type != unix.F_UNLCK, err
}
