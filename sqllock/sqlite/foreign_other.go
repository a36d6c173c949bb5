//go:build !linux

package sqlite

import "os"

// locksOn is for systems that tell which locks a process has.
func locksOn(os.FileInfo) (posix, ofd bool) { return false, false }
