//go:build !linux

package sqlite

// asOwner runs f: a thread cannot have another user's rights to files on this system.
func asOwner(_ string, f func() error) error { return f() }
