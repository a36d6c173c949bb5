package pawl

import (
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

const (
	clockMonotonic = 1 // stands still while the machine sleeps; what Go uses
	clockBoottime  = 7 // goes on
)

// sleepNoise is the smallest difference taken for sleep. The two clocks are read
// one after the other; what a preemption between the reads adds must not move a
// deadline.
const sleepNoise = int64(5 * time.Millisecond)

var (
	awake = ahead()    // how far the boot clock was ahead when the process started
	slept atomic.Int64 // the largest lead over awake that was seen and believed
)

// machineAsleep returns for how long the machine has slept since the process started.
func machineAsleep() time.Duration {
	known := slept.Load()
	lead := ahead() - awake
	if lead-known < sleepNoise {
		return time.Duration(known)
	}
	// Look again before believing it: the smaller of two readings is the truer.
	lead = min(lead, ahead()-awake)
	for lead-known >= sleepNoise {
		if slept.CompareAndSwap(known, lead) {
			return time.Duration(lead)
		}
		known = slept.Load()
	}
	return time.Duration(known)
}

// ahead reads how far the boot clock is ahead of the monotonic one. A delay
// between the two reads only adds.
func ahead() int64 {
	m := read(clockMonotonic)
	return read(clockBoottime) - m
}

func read(id uintptr) int64 {
	var ts syscall.Timespec
	// RawSyscall: it does not block, and this is on the way of every lease check.
	_, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, id, uintptr(unsafe.Pointer(&ts)), 0)
	if errno != 0 {
		return 0
	}
	return ts.Nano()
}
