//go:build unix

package main

import (
	"errors"
	"os"
	"slices"
	"syscall"
	"time"
)

// A processTree is the command and all its descendants.
type processTree struct {
	process             // the command
	ownGroup    bool    // the command has its own process group
	guardian    int     // not part of the tree; 0: this process is the guardian
	preexisting []int   // children from before the command: a shell that replaced itself with pawl may have left some
	cgroup      *cgroup // of the command; nil: none could be made
}

// signal sends n to the command, or to its whole group if it has one of its own.
func (t processTree) signal(n syscall.Signal) {
	if t.ownGroup {
		_ = t.sendGroup(n)
		return
	}
	_ = t.send(n)
}

// signalAll sends n to the command and to all its descendants that can be listed. It
// returns an error if the command exists and may not be signalled.
//
// If the command ended while pawl was stalled, its pid may belong to another process by
// now. Where that is not certain, it must be among the descendants.
func (t processTree) signalAll(n syscall.Signal) error {
	below := t.members()
	var err error
	there := t.certain() || slices.Contains(below, t.pid)
	if there {
		err = t.send(0)
		t.signal(n)
	}
	if n == syscall.SIGKILL {
		t.cgroup.kill()
	}
	for _, pid := range below {
		group, _ := syscall.Getpgid(pid)
		if there && (pid == t.pid || t.ownGroup && group == t.pid && signalled(pid)) {
			continue
		}
		_ = kill(pid, n)
	}
	if errors.Is(err, syscall.ESRCH) {
		return nil
	}
	return err
}

// killAll kills what is left after the command has ended, and reports whether nothing
// is left. A process that forks while it is being killed leaves another one, so this
// repeats until none is left, or none that may be killed. It looks twice because a
// process can change its parent during the search.
func (t processTree) killAll() (gone bool) {
	if t.ownGroup && t.certain() {
		_ = t.sendGroup(syscall.SIGKILL)
	}
	empty, denied := 0, 0
	for giveUp := time.Now().Add(5 * time.Second); empty < 2 && denied < 10 && time.Now().Before(giveUp); time.Sleep(time.Millisecond) {
		t.cgroup.kill()
		found, permitted := 0, 0
		end := func(pid int) {
			found++
			if !errors.Is(kill(pid, syscall.SIGKILL), syscall.EPERM) {
				permitted++
			}
		}
		for _, pid := range t.members() {
			end(pid)
		}
		reapZombies()
		if found == 0 {
			unlistedChildren(t.pid, append([]int{t.guardian}, t.preexisting...), end)
		}
		if empty++; found > 0 {
			empty = 0
		}
		if denied++; found == 0 || permitted > 0 {
			denied = 0
		}
	}
	return empty == 2
}

// members returns the existing processes of the tree that can be listed.
func (t processTree) members() []int {
	all := slices.DeleteFunc(descendantsOf(os.Getpid(), t.preexisting), func(pid int) bool { return pid == t.guardian })
	for _, pid := range t.cgroup.members() {
		if !slices.Contains(all, pid) {
			all = append(all, pid)
		}
	}
	return all
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
