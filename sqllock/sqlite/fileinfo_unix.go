//go:build unix

package sqlite

import (
	"errors"

	"golang.org/x/sys/unix"
)

// isReadOnlyFS reports that the file system refuses every write.
func isReadOnlyFS(err error) bool { return errors.Is(err, unix.EROFS) }

// touchFile sets the times of a file to now, for which the right to write to it suffices.
func touchFile(path string) error { return unix.Utimes(path, nil) }
