//go:build !linux

package sqlite

// wallClock is for systems without a boot clock that all processes share. It promises
// less: setting it forward ends holds early, setting it back keeps dead ones longer, and
// a restart of the machine frees nothing before its expiry.
type wallClock struct{}

func systemClock() (clock, error) { return wallClock{}, nil }

func (wallClock) now() int64        { return wallMicros() }
func (wallClock) wall() int64       { return wallMicros() }
func (wallClock) boot() string      { return "wall" }
func (wallClock) namespace() string { return "" }
