//go:build unix

package main

import (
	"os/signal"
	"syscall"
)

// ignoredByGo lists what was ignored when we began, as far as Go keeps it as it was.
func ignoredByGo() (ignored []syscall.Signal) {
	for _, sig := range []syscall.Signal{syscall.SIGHUP, syscall.SIGINT} {
		if signal.Ignored(sig) {
			ignored = append(ignored, sig)
		}
	}
	return ignored
}
