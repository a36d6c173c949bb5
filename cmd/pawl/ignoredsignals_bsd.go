//go:build unix && !linux

package main

import "syscall"

func ignoredSignals() []syscall.Signal { return ignoredByGo() }
