package main

import (
	"fmt"
	"os"
)

// say prints one line to the user without waiting until it is read. While the
// command controls the terminal, as a shell with job control does, the line is held
// back until the command ends.
func (j *job) say(format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	j.messages.add(func() {
		j.pendingMessages = append(j.pendingMessages, line)
		j.writeMessages()
	})
}

// writeMessages prints the pending lines if that is possible now.
func (j *job) writeMessages() {
	if !j.mayWriteMessages() {
		return
	}
	for _, line := range j.pendingMessages {
		j.app.say("%s", line)
	}
	j.pendingMessages = nil
}

// mayWriteMessages reports whether pawl may write to the terminal now. While the
// command runs, a terminal that is in another group's foreground is left alone.
// Before and after that, pawl writes as any background job does, unless the
// terminal stops background writers.
func (j *job) mayWriteMessages() bool {
	f, ok := j.err.(*os.File)
	if !ok || !isTerminal(f) || inForeground(int(f.Fd())) {
		return true
	}
	return !j.running.Load() && !stopsBackgroundWriters(int(f.Fd()))
}

// resumeMessages is called when the command no longer uses the terminal.
func (j *job) resumeMessages() {
	j.running.Store(false)
	j.messages.add(j.writeMessages)
}

func (j *job) sayUnlessQuiet(format string, args ...any) {
	if !j.quiet {
		j.say(format, args...)
	}
}
