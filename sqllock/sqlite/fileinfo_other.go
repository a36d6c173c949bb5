//go:build !unix

package sqlite

func isReadOnlyFS(error) bool { return false }

// touchFile does nothing: an open file cannot be removed.
func touchFile(string) error { return nil }
