package pawl

import (
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

const (
	clockMonotonic = 1 // stops while the machine sleeps; Go's own clock
	clockBoottime  = 7 // goes on
)

const (
	// sleepNoise is the smallest difference taken for sleep. The two clocks are
	// read one after the other; what a preemption between the reads adds must not
	// move a deadline.
	sleepNoise = int64(5 * time.Millisecond)

	// moreReadings is how often the clocks are read again before a sleep is believed.
	moreReadings = 5

	// recheckAfter is how long the kernel is not asked while the wall clock says that
	// nothing happened.
	recheckAfter = int64(20 * time.Millisecond)
)

var machine = newSleepMeter(ahead)

// machineAsleep returns for how long the machine has slept since the process
// started.
func machineAsleep(now time.Time) time.Duration {
	mono := int64(now.Sub(clockBase))
	return time.Duration(machine.slept(mono, now.UnixNano()-mono))
}

// A sleepMeter tells how long the machine has slept. Two system calls cost more
// than the rest of an uncontended lock, and package time cannot read the boot
// clock, so the kernel is asked only if the machine may have slept: a sleep puts the
// wall clock ahead of the monotonic one. A wall clock that is set back by just as
// much in the same moment hides a sleep for recheckAfter.
type sleepMeter struct {
	ahead func() int64 // how far the boot clock is ahead of the monotonic one
	awake int64        // how far it was when the process started

	// Written in this order and read in the reverse, so that a reader of checked sees
	// what that check found.
	most    atomic.Int64 // the largest lead over awake that was seen and believed
	drift   atomic.Int64 // how far the wall clock was ahead at the last check
	checked atomic.Int64 // when that was, on the monotonic clock
}

func newSleepMeter(ahead func() int64) *sleepMeter {
	return &sleepMeter{ahead: ahead, awake: ahead()}
}

// slept answers for a moment on the monotonic clock at which the wall clock was
// ahead of it by drift.
func (m *sleepMeter) slept(mono, drift int64) int64 {
	if since := mono - m.checked.Load(); since >= 0 && since < recheckAfter {
		if moved := drift - m.drift.Load(); -sleepNoise < moved && moved < sleepNoise {
			return m.most.Load()
		}
	}
	most := m.ask()
	m.drift.Store(drift)
	m.checked.Store(mono)
	return most
}

// ask asks the kernel.
func (m *sleepMeter) ask() int64 {
	known := m.most.Load()
	lead := m.ahead() - m.awake
	// Look again and again before believing it: the smallest reading is the truest, and on a
	// machine that is overloaded a thread may be preempted between the clocks twice in a row.
	for again := 0; again < moreReadings && lead-known >= sleepNoise; again++ {
		lead = min(lead, m.ahead()-m.awake)
	}
	for lead-known >= sleepNoise {
		if m.most.CompareAndSwap(known, lead) {
			return lead
		}
		known = m.most.Load()
	}
	return known
}

// ahead reads how far the boot clock is ahead of the monotonic one. A delay
// between the two reads only adds.
func ahead() int64 {
	m := read(clockMonotonic)
	return read(clockBoottime) - m
}

func read(id uintptr) int64 {
	var ts syscall.Timespec
	// RawSyscall: it does not block.
	_, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, id, uintptr(unsafe.Pointer(&ts)), 0)
	if errno != 0 {
		return 0
	}
	return ts.Nano()
}
