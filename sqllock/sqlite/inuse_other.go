//go:build !linux

package sqlite

// isInUse cannot find out on this system, so a file is always read in place, and SQLite
// may make its log and shared memory again.
func isInUse(string) (used bool, done func(), err error) { return true, func() {}, nil }
