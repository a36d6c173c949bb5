//go:build !unix

package sqlite

func readOnly(error) bool { return false }

func hardLinked(string) bool { return false }
