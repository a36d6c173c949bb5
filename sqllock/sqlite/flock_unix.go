//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package sqlite

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

type lockKind int

const (
	shared    lockKind = unix.LOCK_SH
	exclusive lockKind = unix.LOCK_EX
)

// lockFile tries to lock an open file. The lock belongs to the open file description, not
// to the process: it lasts until every descriptor of it is closed, those that children
// have inherited included. So it is never unlocked, only closed: unlocking would end it
// for a child as well.
func lockFile(f *os.File, kind lockKind) (bool, error) {
	for {
		switch err := unix.Flock(int(f.Fd()), int(kind)|unix.LOCK_NB); {
		case err == nil:
			return true, nil
		case errors.Is(err, unix.EWOULDBLOCK):
			return false, nil
		case !errors.Is(err, unix.EINTR):
			return false, err
		}
	}
}

// closeFile closes f, and with its last descriptor ends its lock.
func closeFile(f *os.File) error { return f.Close() }
