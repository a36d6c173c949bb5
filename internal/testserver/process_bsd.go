//go:build unix && !linux

package testserver

import "syscall"

// attributes has the process run as u. There is no parent death signal here: a
// server outlives a test binary that is killed.
func attributes(u *user) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: u.credential()}
}

// awaitStopped returns at once: there is no way to ask that serves all systems.
func (p *process) awaitStopped() error { return nil }
