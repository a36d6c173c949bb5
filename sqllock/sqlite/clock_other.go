//go:build !linux

package sqlite

// systemClock is for systems without a boot clock that all processes share. It promises
// less: setting it forward ends holds early, setting it back keeps dead ones longer, and
// a restart of the machine frees nothing before its expiry.
func systemClock() (clock, error) {
	return clock{now: wallMicros, wall: wallMicros, boot: "wall"}, nil
}
