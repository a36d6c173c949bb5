package main

import "golang.org/x/sys/unix"

// uptime is a clock that all processes of the machine share and that advances
// during suspend.
func uptime() int64 { return clock(unix.CLOCK_BOOTTIME) }
