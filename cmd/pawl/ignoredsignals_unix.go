//go:build unix

package main

import (
	"os/signal"
	"syscall"
)

// ignoredByGo returns the ignored signals among those that the Go runtime leaves
// unchanged.
func ignoredByGo() (ignored []syscall.Signal) {
	for _, sig := range []syscall.Signal{syscall.SIGHUP, syscall.SIGINT} {
		if signal.Ignored(sig) {
			ignored = append(ignored, sig)
		}
	}
	return ignored
}
