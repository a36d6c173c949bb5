//go:build unix

package testserver

import (
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"
)

// portFile has a byte for every port, which the process that uses the port locks: tests
// of several packages run at once. It is never closed, because that would end the
// locks; they end with the process.
var portFile = sync.OnceValue(func() *os.File {
	f, err := os.OpenFile(filepath.Join(os.TempDir(), "pawl-test-ports"), os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return nil // of another user: ports are reserved within this process alone
	}
	return f
})

// lockPort reserves port among the processes with the same folder of temporary files.
func lockPort(port int) bool { return setPortLock(port, unix.F_WRLCK) }

func unlockPort(port int) { setPortLock(port, unix.F_UNLCK) }

func setPortLock(port int, kind int16) bool {
	f := portFile()
	if f == nil {
		return true
	}
	err := unix.FcntlFlock(f.Fd(), unix.F_SETLK, &unix.Flock_t{Type: kind, Start: int64(port), Len: 1})
	return err != unix.EAGAIN && err != unix.EACCES
}
