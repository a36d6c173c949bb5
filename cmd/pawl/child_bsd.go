//go:build unix && !linux

package main

import "syscall"

// What follows has no counterpart here: a killed pawl leaves the command running,
// and only the command's own process group is found when the lock is lost.

func tieTo(*syscall.SysProcAttr) {}

func adoptOrphans() {}

func parentOf(int) int { return 0 }

func isPawl(pid int) bool { return pid > 1 } // any may be

func descendants(int) []int { return nil }
