//go:build !linux

package testserver

// listens trusts the probe, because there is no portable way to check. A program
// that takes the port just before the server may be mistaken for it.
func (p *process) listens(int) bool { return true }
