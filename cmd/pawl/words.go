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
	j.words.add(func() {
		j.unsaid = append(j.unsaid, line)
		j.speak()
	})
}

// speak writes what is to be said, if it may be.
func (j *job) speak() {
	if !j.maySpeak() {
		return
	}
	for _, line := range j.unsaid {
		j.app.say("%s", line)
	}
	j.unsaid = nil
}

// maySpeak reports whether a line may be written to the terminal now. One that
// somebody else has is left to them while the command runs; before and after that a
// job in the background speaks as others do, unless the terminal is set to stop those
// that do.
func (j *job) maySpeak() bool {
	f, ok := j.err.(*os.File)
	if !ok || !isTerminal(f) || inForeground(int(f.Fd())) {
		return true
	}
	return !j.running.Load() && !stopsWriters(int(f.Fd()))
}

// speakAgain ends the command's time at the terminal.
func (j *job) speakAgain() {
	j.running.Store(false)
	j.words.add(j.speak)
}
