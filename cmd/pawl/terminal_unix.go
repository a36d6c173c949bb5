//go:build unix

package main

import (
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// terminalState is the state of the controlling terminal from before the command
// started.
type terminalState struct {
	saved *term.State // nil: there is no terminal, or pawl was in the background
}

// save saves the terminal's modes if pawl is in the foreground.
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

// restore restores the terminal for a command that was killed and could not do so
// itself. If the foreground group has no process left, it takes the terminal back,
// and it resets the modes that a program in raw mode leaves behind. If another
// group is in the foreground, for example a shell after Ctrl-Z, the terminal is
// left alone.
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

// openTerminal opens the controlling terminal; nil: there is none.
func openTerminal() *os.File {
	f, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		return nil
	}
	return f
}

// hasTerminal reports whether this process has a controlling terminal.
func hasTerminal() bool {
	tty := openTerminal()
	if tty == nil {
		return false
	}
	tty.Close()
	return true
}

// inForeground reports whether pawl may write to a terminal without disturbing
// another foreground job. For a terminal other than the controlling one this is
// always true.
func inForeground(fd int) bool {
	group, err := unix.IoctlGetInt(fd, unix.TIOCGPGRP)
	return err != nil || group == unix.Getpgrp()
}

// stopsBackgroundWriters reports whether the terminal stops background processes
// that write to it, as after stty tostop.
func stopsBackgroundWriters(fd int) bool {
	modes, err := unix.IoctlGetTermios(fd, getModes)
	return err == nil && modes.Lflag&unix.TOSTOP != 0
}

// ignoreTerminalStop prevents the terminal from stopping pawl, for writing or for
// changing its modes, while it holds a lock. The guardian undoes this for the
// command.
func ignoreTerminalStop() { signal.Ignore(syscall.SIGTTOU) }

// resetTerminalStop undoes ignoreTerminalStop.
func resetTerminalStop() { signal.Reset(syscall.SIGTTOU) }
