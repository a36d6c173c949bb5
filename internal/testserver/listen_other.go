//go:build !linux

package testserver

// listens takes the word of the probe: there is no way to ask that serves all
// systems. A program that takes the port in the moment before the server does may
// then be taken for it.
func (p *process) listens(int) bool { return true }
