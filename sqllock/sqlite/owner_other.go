//go:build !linux

package sqlite

// asOwner is for systems where a thread can have another user's rights to files.
func asOwner(_ string, f func() error) error { return f() }
