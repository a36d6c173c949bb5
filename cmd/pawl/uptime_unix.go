//go:build unix

package main

import "golang.org/x/sys/unix"

func clock(id int32) int64 {
	var ts unix.Timespec
	_ = unix.ClockGettime(id, &ts) // never fails for these clocks
	return ts.Nano()
}
