//go:build !unix

package sqlite

func isReadOnlyFS(error) bool { return false }

func isHardLinked(string) bool { return false }
