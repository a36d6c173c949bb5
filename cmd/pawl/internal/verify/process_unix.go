//go:build unix

package verify

import (
	"os/exec"
	"syscall"
)

// canPause says that a process can be stopped and continued.
const canPause = true

// separate puts a worker in a process group of its own, so that Ctrl-C ends only the
// coordinator, which then ends its workers. If the coordinator is killed, the kernel
// continues workers that are stopped, because their group has become an orphan.
func separate(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

func (p *process) pause()  { _ = p.cmd.Process.Signal(syscall.SIGSTOP) }
func (p *process) resume() { _ = p.cmd.Process.Signal(syscall.SIGCONT) }
