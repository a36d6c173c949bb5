package fence

import (
	"errors"
	"os"
	"syscall"
	"time"
)

// sharing is what Windows says of a file that another has opened alone.
const sharing syscall.Errno = 32

// lockFile waits until nobody else has the file open. The file is opened alone, which
// ends with the process, so a crash leaves nothing behind.
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
		time.Sleep(time.Millisecond) // nothing tells when it is free
	}
}
