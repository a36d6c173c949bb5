package sqlite

import (
	"errors"
	"io/fs"
	"os"

	"github.com/ncruces/go-sqlite3"
	"golang.org/x/sys/unix"
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
func inUse(path string) (used bool, done func(), err error) {
	file, err := os.Open(path)
	if err != nil {
		return false, nil, err
	}
	lock := unix.Flock_t{Type: unix.F_RDLCK, Start: sharedFirst, Len: sharedSize}
	if err := unix.FcntlFlock(file.Fd(), unix.F_OFD_SETLK, &lock); err != nil {
		file.Close()
		if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
			err = sqlite3.BUSY // somebody leaves last just now
		}
		return false, nil, err
	}
	done = func() { file.Close() }
	if used, err = mapped(path); err != nil {
		done()
		return false, nil, err
	}
	return used, done, nil
}

// mapped reports whether somebody has the shared memory mapped.
func mapped(path string) (bool, error) {
	if _, err := os.Stat(path + "-wal"); err != nil {
		return false, notThere(err)
	}
	shm, err := os.Open(path + "-shm")
	if err != nil {
		return false, notThere(err)
	}
	defer shm.Close()
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
