//go:build unix && !linux

package main

import (
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// What follows has no counterpart here: a command outlives a guardian that is killed,
// and what has left the command's process group is not found.

func tieTo(*syscall.SysProcAttr) {}

func adoptOrphans() {}

func descendants(int) []int { return nil }

const getModes = unix.TIOCGETA

// ignoredSignals lists what was ignored when we began. Go keeps these two as they
// were; of the others nothing is known.
func ignoredSignals() (ignored []syscall.Signal) {
	for _, sig := range []syscall.Signal{syscall.SIGHUP, syscall.SIGINT} {
		if signal.Ignored(sig) {
			ignored = append(ignored, sig)
		}
	}
	return ignored
}
