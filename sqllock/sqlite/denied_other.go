//go:build !unix

package sqlite

func readOnly(error) bool { return false }
