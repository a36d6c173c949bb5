//go:build unix

package main

import (
	"os"
	"slices"
	"syscall"
	"time"
)

// A family is the command and everything that descends from it.
type processTree struct {
	pid         int
	ownGroup    bool  // in a process group of its own
	guardian    int   // it is not of the family; 0: we are the guardian
	preexisting []int // children that we had before: a shell that became pawl may have left some
}

// signal sends n to the command, and to its group if that is its own.
func (t processTree) signal(n syscall.Signal) {
	if t.ownGroup {
		_ = syscall.Kill(-t.pid, n)
		return
	}
	_ = syscall.Kill(t.pid, n)
}

// signalAll sends n to the command and to everything that descends from it. The
// command's number may be another's by now, if it has ended while we stood still, so
// where descendants can be found it must be among them.
func (t processTree) signalAll(n syscall.Signal) {
	below := t.members()
	there := !findsDescendants || slices.Contains(below, t.pid)
	if there {
		t.signal(n)
	}
	for _, pid := range below {
		if group, _ := syscall.Getpgid(pid); there && (pid == t.pid || t.ownGroup && group == t.pid) {
			continue // it has it
		}
		_ = syscall.Kill(pid, n)
	}
}

// endAll kills what is left once the command has ended. One that forks while it
// is being killed leaves another behind, so this goes on until there is none, or
// none that we may kill. A process may change its parent while it is looked for: it is
// looked for twice.
func (t processTree) killAll() {
	if t.ownGroup && !findsDescendants {
		_ = syscall.Kill(-t.pid, syscall.SIGKILL)
	}
	empty := 0
	for giveUp := time.Now().Add(5 * time.Second); empty < 2 && time.Now().Before(giveUp); time.Sleep(time.Millisecond) {
		below := t.members()
		if empty++; len(below) > 0 {
			empty = 0
		}
		for _, pid := range below {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		reapZombies()
	}
}

// below lists the processes of the family that are there.
func (t processTree) members() []int {
	return slices.DeleteFunc(descendantsOf(os.Getpid(), t.preexisting), func(pid int) bool { return pid == t.guardian })
}

// bury takes leave of children that have ended.
func reapZombies() {
	for {
		if pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); pid <= 0 && err != syscall.EINTR {
			return
		}
	}
}

// reap waits for a child. Orphans that were left to us, because we are process 1 or
// asked for them, are buried on the way. stopped, if not nil, is told when the child
// stops.
func waitChild(pid int, stopped func(syscall.Signal)) syscall.WaitStatus {
	options := 0
	if stopped != nil {
		options = syscall.WUNTRACED
	}
	for {
		var status syscall.WaitStatus
		got, err := syscall.Wait4(-1, &status, options, nil)
		switch {
		case err == syscall.EINTR:
		case err != nil:
			return status
		case got == pid && (status.Exited() || status.Signaled()):
			return status
		case got == pid && status.Stopped():
			stopped(status.StopSignal())
		}
	}
}
