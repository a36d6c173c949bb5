package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// parentOf returns the parent of a process; 0 if unknown.
func parentOf(pid int) int {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0
	}
	// The command's name is in parentheses and may contain anything, even ") ".
	_, rest, found := bytes.Cut(stat[bytes.LastIndexByte(stat, ')')+1:], []byte(" "))
	if !found {
		return 0
	}
	fields := bytes.Fields(rest)
	if len(fields) < 2 {
		return 0
	}
	parent, _ := strconv.Atoi(string(fields[1]))
	return parent
}

// descendantsOf returns the processes below root that /proc shows, except the children
// listed in but and their descendants. /proc may be missing, as in a chroot, or hide
// processes, as with hidepid=2.
func descendantsOf(root int, but []int) []int {
	entries, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil
	}
	below := map[int][]int{}
	for _, e := range entries {
		pid, err := strconv.Atoi(filepath.Base(e))
		if err == nil {
			parent := parentOf(pid)
			below[parent] = append(below[parent], pid)
		}
	}
	var all []int
	next := slices.DeleteFunc(below[root], func(pid int) bool { return slices.Contains(but, pid) })
	for ; len(next) > 0; next = next[1:] {
		all = append(all, next[0])
		next = append(next, below[next[0]]...)
	}
	return all
}

// mostPIDs is the kernel's limit of process ids.
const mostPIDs = 1 << 22

// unlistedChildren calls found with the children of this process that /proc does not
// show: it tries process ids, upwards from one near which they probably are. All of
// them take half a second, but it ends when no child is left, for example because
// found kills them.
func unlistedChildren(near int, but []int, found func(pid int)) {
	for i := range mostPIDs {
		if i%1024 == 0 {
			if reapZombies(); !hasChildren() {
				return
			}
		}
		if pid := 1 + (near+i)%mostPIDs; isChild(pid) && !slices.Contains(but, pid) {
			found(pid)
		}
	}
}

// childrenNow returns the children of this process.
func childrenNow() (all []int) {
	if !hasChildren() {
		return nil
	}
	all = slices.DeleteFunc(descendantsOf(os.Getpid(), nil), func(pid int) bool { return !isChild(pid) })
	if !showsProcesses() {
		unlistedChildren(os.Getpid(), all, func(pid int) { all = append(all, pid) })
	}
	return all
}

// showsProcesses reports whether /proc shows every process.
func showsProcesses() bool {
	_, err := os.ReadFile("/proc/1/stat")
	return err == nil
}

// adoptOrphans makes this process the parent of orphans that the command leaves
// behind, so that they can be found and stopped when the lock is lost.
func adoptOrphans() error { return unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }

// unreachable returns which processes of the command pawl could not end, if any.
func (t processTree) unreachable(adopts error) string {
	if t.cgroup == nil && adopts != nil && !showsProcesses() {
		return "processes that leave the command's process group"
	}
	return ""
}

// signalled reports whether a process that got a signal with its group has received it.
func signalled(pid int) bool { return syscall.Kill(pid, 0) != syscall.EPERM }
