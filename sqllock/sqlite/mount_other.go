//go:build !linux

package sqlite

// isMountPoint is false on systems that cannot mount a file without its folder.
func isMountPoint(string) bool { return false }
