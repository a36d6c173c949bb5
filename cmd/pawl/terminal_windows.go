package main

import "syscall"

// terminalState does nothing: a console has neither job control nor modes that
// outlive a program.
type terminalState struct{}

func (*terminalState) save() {}

func (*terminalState) restore() {}

func inForeground(int) bool { return true }

func stopsBackgroundWriters(int) bool { return false }

func ignoreTerminalStop() {}

func resetTerminalStop() {}

func ignoredSignals() []syscall.Signal { return nil }
