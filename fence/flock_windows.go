package fence

import (
	"errors"
	"os"
	"syscall"
	"time"
)

// sharing is ERROR_SHARING_VIOLATION: another process has the file open.
const sharing syscall.Errno = 32

// lockFile waits until it can open the file without sharing. The handle ends with the
// process, so a crash leaves no lock behind.
func lockFile(path string) (unlock func(), err error) {
	name, err := syscall.UTF16PtrFromString(path)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	for {
		h, err := syscall.CreateFile(name, syscall.GENERIC_READ|syscall.GENERIC_WRITE, 0, nil, syscall.OPEN_ALWAYS, syscall.FILE_ATTRIBUTE_NORMAL, 0)
		if err == nil {
			return func() { _ = syscall.CloseHandle(h) }, nil
		}
		if !errors.Is(err, sharing) {
			return nil, &os.PathError{Op: "open", Path: path, Err: err}
		}
		time.Sleep(time.Millisecond) // there is no notice of its release
	}
}
