//go:build unix

package sqlite

import (
	"errors"

	"golang.org/x/sys/unix"
)

// readOnly reports that the file system refuses every write.
func readOnly(err error) bool { return errors.Is(err, unix.EROFS) }
