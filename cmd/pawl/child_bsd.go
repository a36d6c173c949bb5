//go:build unix && !linux

package main

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// What follows has no counterpart here: a command outlives a guardian that is killed,
// and what has left the command's process group is not found.

func tieTo(*syscall.SysProcAttr) {}

func adoptOrphans() {}

const findsDescendants = false

func descendants(int, []int) []int { return nil }

// uptime is a clock that all processes of a machine share.
func uptime() int64 { return clock(unix.CLOCK_MONOTONIC) }

const getModes = unix.TIOCGETA

func ignoredSignals() []syscall.Signal { return ignoredByGo() }
