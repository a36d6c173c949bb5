//go:build unix && !linux

package main

import "golang.org/x/sys/unix"

// uptime is a clock that all processes of the machine share.
func uptime() int64 { return clock(unix.CLOCK_MONOTONIC) }
