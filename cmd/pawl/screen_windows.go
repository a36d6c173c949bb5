package main

import "syscall"

// A screen is the console, which has neither jobs nor modes that outlive a program.
type screen struct{}

func (*screen) save() {}

func (*screen) restore() {}

func inForeground(int) bool { return true }

func stopsWriters(int) bool { return false }

func neverStopWriting() {}

func writeAsOthers() {}

func ignoredSignals() []syscall.Signal { return nil }
