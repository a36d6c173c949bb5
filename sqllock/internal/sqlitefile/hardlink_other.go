//go:build !unix

package sqlitefile

// IsHardLinked is false on systems that do not count the names of a file.
func IsHardLinked(string) bool { return false }
