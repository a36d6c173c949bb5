//go:build !linux

package sqlite

// mounted is for systems that can mount a file without its folder.
func mounted(string) bool { return false }
