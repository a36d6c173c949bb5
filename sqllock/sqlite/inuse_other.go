//go:build !linux

package sqlite

// inUse cannot be told here, so a file is always read where it is, and SQLite may
// make its log and shared memory anew.
func inUse(string) (used bool, done func(), err error) { return true, func() {}, nil }
