//go:build unix

package sqlite

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// isReadOnlyFS reports that the file system refuses every write.
func isReadOnlyFS(err error) bool { return errors.Is(err, unix.EROFS) }

// isHardLinked reports whether the file at path has further names.
func isHardLinked(path string) bool {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
		return false
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && st.Nlink > 1
}
