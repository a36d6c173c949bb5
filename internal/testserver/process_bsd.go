//go:build unix && !linux

package testserver

import "syscall"

// attributes makes the process run as u. There is no parent death signal: a server
// outlives a test binary that is killed.
func attributes(u *user) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: u.credential()}
}

// awaitStopped returns at once: there is no portable way to check.
func (p *process) awaitStopped() error { return nil }
