//go:build unix

package main

import (
	"os"
	"slices"
	"syscall"
	"time"
)

// A processTree is the command and all its descendants.
type processTree struct {
	pid         int
	ownGroup    bool  // the command has its own process group
	guardian    int   // not part of the tree; 0: this process is the guardian
	preexisting []int // children from before the command: a shell that replaced itself with pawl may have left some
}

// signal sends n to the command, or to its whole group if it has one of its own.
func (t processTree) signal(n syscall.Signal) {
	if t.ownGroup {
		_ = syscall.Kill(-t.pid, n)
		return
	}
	_ = syscall.Kill(t.pid, n)
}

// signalAll sends n to the command and all its descendants. If the command ended
// while pawl was stalled, its pid may belong to another process by now, so where
// descendants can be listed it must be among them.
func (t processTree) signalAll(n syscall.Signal) {
	below := t.members()
	there := !findsDescendants || slices.Contains(below, t.pid)
	if there {
		t.signal(n)
	}
	for _, pid := range below {
		if group, _ := syscall.Getpgid(pid); there && (pid == t.pid || t.ownGroup && group == t.pid) {
			continue // already signalled
		}
		_ = syscall.Kill(pid, n)
	}
}

// killAll kills what is left after the command has ended. A process that forks
// while it is being killed leaves another one, so this repeats until none is left,
// or none that may be killed. It looks twice because a process can change its
// parent during the search.
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

// members returns the existing processes of the tree.
func (t processTree) members() []int {
	return slices.DeleteFunc(descendantsOf(os.Getpid(), t.preexisting), func(pid int) bool { return pid == t.guardian })
}

// reapZombies reaps children that have ended.
func reapZombies() {
	for {
		if pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); pid <= 0 && err != syscall.EINTR {
			return
		}
	}
}

// waitChild waits for a child. It also reaps orphans, which this process gets as
// process 1 or as subreaper. stopped, if not nil, is called when the child stops.
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
