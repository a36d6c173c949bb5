//go:build !linux

package sqlite

import "os"

// locksOn cannot find out on this system.
func locksOn(os.FileInfo) (posix, ofd bool) { return false, false }
