package main

import "golang.org/x/sys/unix"

// uptime is a clock that all processes of a machine share, and that goes on while it
// sleeps.
func uptime() int64 { return clock(unix.CLOCK_BOOTTIME) }
