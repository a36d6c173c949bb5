//go:build unix

package sqlitefile

import (
	"os"
	"syscall"
)

// IsHardLinked reports whether the file at path has further names.
func IsHardLinked(path string) bool {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
		return false
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && st.Nlink > 1
}
