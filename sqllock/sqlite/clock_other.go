//go:build !linux

package sqlite

// wallClock is what is left without a boot clock that all processes share. It
// promises less: a clock set forward ends holds early, one set back keeps dead
// ones longer, and a restart of the machine frees nothing before its time.
type wallClock struct{}

func systemClock() (clock, error) { return wallClock{}, nil }

func (wallClock) now() int64    { return wallMicros() }
func (wallClock) wall() int64   { return wallMicros() }
func (wallClock) boot() string  { return "wall" }
func (wallClock) space() string { return "" }
