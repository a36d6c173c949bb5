package testserver

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// attributes makes the process run as u and die with the thread that starts it.
func attributes(u *user) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Credential: u.credential()}
}

// awaitStopped waits until all threads have stopped: the signal only requests it.
func (p *process) awaitStopped() error {
	for begun := time.Now(); ; {
		if p.ended() {
			return os.ErrProcessDone
		}
		running := p.running()
		if running == 0 {
			return nil
		}
		if time.Since(begun) > 10*time.Second {
			return fmt.Errorf("%d threads still run", running)
		}
		time.Sleep(time.Millisecond) // poll: the kernel reports a stop only to wait(2)
	}
}

// running counts the threads that are not stopped.
func (p *process) running() int {
	states, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", p.pid()))
	running := 0
	for _, path := range states {
		stat, err := os.ReadFile(path)
		if err != nil {
			continue // this thread has ended
		}
		// The state follows the name, which may contain anything.
		_, state, _ := bytes.Cut(stat[bytes.LastIndexByte(stat, ')')+1:], []byte(" "))
		if !bytes.HasPrefix(state, []byte("T")) {
			running++
		}
	}
	return running
}
