//go:build unix

package sqlite

import (
	"errors"

	"golang.org/x/sys/unix"
)

// isReadOnlyFS reports that the file system refuses every write.
func isReadOnlyFS(err error) bool { return errors.Is(err, unix.EROFS) }
