//go:build !linux

package sqlitefile

// IsMountPoint is false on systems that cannot mount a file without its folder.
func IsMountPoint(string) bool { return false }
