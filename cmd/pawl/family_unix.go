//go:build unix

package main

import (
	"os"
	"syscall"
	"time"
)

// A family is the command and everything that descends from it.
type family struct {
	pid      int
	own      bool // in a process group of its own
	guardian int  // it is not of the family; 0: we are the guardian
}

// signal sends n to the command, and to its group if that is its own.
func (f family) signal(n syscall.Signal) {
	if f.own {
		_ = syscall.Kill(-f.pid, n)
		return
	}
	_ = syscall.Kill(f.pid, n)
}

// signalAll sends n to the command and to everything that descends from it.
func (f family) signalAll(n syscall.Signal) {
	below := f.below()
	f.signal(n)
	for _, pid := range below {
		if pid != f.pid {
			_ = syscall.Kill(pid, n)
		}
	}
}

// endAll kills what is left once the command has ended. One that forks while it
// is being killed leaves another behind, so this goes on until there is none, or
// none that we may kill.
func (f family) endAll() {
	if f.own {
		_ = syscall.Kill(-f.pid, syscall.SIGKILL)
	}
	for giveUp := time.Now().Add(5 * time.Second); time.Now().Before(giveUp); time.Sleep(time.Millisecond) {
		below := f.below()
		if len(below) == 0 {
			return
		}
		for _, pid := range below {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		bury()
	}
}

// below lists the processes of the family that are there.
func (f family) below() (pids []int) {
	for _, pid := range descendants(os.Getpid()) {
		if pid != f.guardian {
			pids = append(pids, pid)
		}
	}
	return pids
}

// bury takes leave of children that have ended.
func bury() {
	for {
		if pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); pid <= 0 && err != syscall.EINTR {
			return
		}
	}
}
