package main

import (
	"fmt"
	"os"
)

// say writes one line for the person at the terminal, and does not wait until it is
// read. While the command has the terminal for itself, as a shell with jobs of its own
// does, it waits until the command has ended.
func (j *job) say(format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	j.messages.add(func() {
		j.pendingMessages = append(j.pendingMessages, line)
		j.writeMessages()
	})
}

// speak writes what is to be said, if it may be.
func (j *job) writeMessages() {
	if !j.mayWriteMessages() {
		return
	}
	for _, line := range j.pendingMessages {
		j.app.say("%s", line)
	}
	j.pendingMessages = nil
}

// maySpeak reports whether a line may be written to the terminal now. One that
// somebody else has is left to them while the command runs; before and after that a
// job in the background speaks as others do, unless the terminal is set to stop those
// that do.
func (j *job) mayWriteMessages() bool {
	f, ok := j.err.(*os.File)
	if !ok || !isTerminal(f) || inForeground(int(f.Fd())) {
		return true
	}
	return !j.running.Load() && !stopsBackgroundWriters(int(f.Fd()))
}

// speakAgain ends the command's time at the terminal.
func (j *job) resumeMessages() {
	j.running.Store(false)
	j.messages.add(j.writeMessages)
}

func (j *job) sayUnlessQuiet(format string, args ...any) {
	if !j.quiet {
		j.say(format, args...)
	}
}
