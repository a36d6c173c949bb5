//go:build unix && !linux

package main

import "syscall"

// What follows has no counterpart here: a killed pawl leaves the command running,
// and only the command's own process group is found when the lock is lost.

func tieTo(*syscall.SysProcAttr) {}

func adoptOrphans() {}

func descendants(int) []int { return nil }
