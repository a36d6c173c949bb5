//go:build unix

package testserver

import "syscall"

// terminate asks a process to end.
const terminate = syscall.SIGTERM

func (p *process) pause() error {
	if err := p.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	return p.awaitStopped()
}

func (p *process) resume() error { return p.signal(syscall.SIGCONT) }
