//go:build unix && !linux

package main

import "syscall"

// These systems lack what Linux offers: a command outlives a guardian that is
// killed, and processes that left the command's process group are not found.

const findsDescendants = false

func descendantsOf(int, []int) []int { return nil }

func adoptOrphans() {}

func dieWithParent(*syscall.SysProcAttr) {}
