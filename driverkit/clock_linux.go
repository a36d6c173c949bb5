package driverkit

import (
	"syscall"
	"time"
	"unsafe"
)

const clockBoottime = 7

// Now returns the time since the machine was booted, sleep included. It is the same for
// all processes of one boot and one time namespace.
func Now() Instant {
	var ts syscall.Timespec
	// RawSyscall: it does not block.
	_, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clockBoottime, uintptr(unsafe.Pointer(&ts)), 0)
	if errno != 0 { // every kernel since 2.6.39 has this clock
		return Instant(time.Since(started)) + 1
	}
	return Instant(ts.Nano())
}
