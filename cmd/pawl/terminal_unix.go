//go:build unix

package main

import (
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// A screen is our controlling terminal as it was before the command began.
type terminalState struct {
	saved *term.State // nil: there is none, or it was not ours to change
}

// save notes the terminal's modes, if we are in its foreground.
func (s *terminalState) save() {
	tty := openTerminal()
	if tty == nil {
		return
	}
	defer tty.Close()
	if inForeground(int(tty.Fd())) {
		s.saved, _ = term.GetState(int(tty.Fd()))
	}
}

// restore is for a command that could not do it: one that was killed. It takes the
// terminal back from a group of the command's of which nobody is left, and sets the
// modes that a program in raw mode leaves behind. Where another group has come to the
// foreground, as a shell's after Ctrl-Z, the terminal is theirs.
func (s *terminalState) restore() {
	if s.saved == nil {
		return
	}
	tty := openTerminal()
	if tty == nil {
		return
	}
	defer tty.Close()
	fd := int(tty.Fd())
	if group, err := unix.IoctlGetInt(fd, unix.TIOCGPGRP); err == nil && group != unix.Getpgrp() && unix.Kill(-group, 0) == unix.ESRCH {
		_ = unix.IoctlSetPointerInt(fd, unix.TIOCSPGRP, unix.Getpgrp())
	}
	if inForeground(fd) {
		_ = term.Restore(fd, s.saved)
	}
}

// openTerminal opens our controlling terminal; nil: we have none.
func openTerminal() *os.File {
	f, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		return nil
	}
	return f
}

// hasTerminal reports whether we have a controlling terminal.
func hasTerminal() bool {
	tty := openTerminal()
	if tty == nil {
		return false
	}
	tty.Close()
	return true
}

// inForeground reports whether we may write to a terminal, and nobody else types. A
// terminal that is not our controlling one has no foreground for us to be in.
func inForeground(fd int) bool {
	group, err := unix.IoctlGetInt(fd, unix.TIOCGPGRP)
	return err != nil || group == unix.Getpgrp()
}

// stopsWriters reports whether a terminal stops those in its background that write to
// it, as after stty tostop.
func stopsBackgroundWriters(fd int) bool {
	modes, err := unix.IoctlGetTermios(fd, getModes)
	return err == nil && modes.Lflag&unix.TOSTOP != 0
}

// neverStopWriting keeps the terminal from stopping us, for a write or for a change of
// its modes, while a lock is in our hands. The guardian undoes it for the command.
func ignoreTerminalStop() { signal.Ignore(syscall.SIGTTOU) }

// writeAsOthers ends neverStopWriting.
func resetTerminalStop() { signal.Reset(syscall.SIGTTOU) }
