package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
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

// findsDescendants is true: all descendants are found, whatever their process
// group.
const findsDescendants = true

// descendantsOf returns all processes below root, except the children listed in but
// and their descendants.
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

// adoptOrphans makes this process the parent of orphans that the command leaves
// behind, so that they can be found and stopped when the lock is lost.
func adoptOrphans() {
	_, _, _ = syscall.RawSyscall(syscall.SYS_PRCTL, prSetChildSubreaper, 1, 0)
}

const prSetChildSubreaper = 36

// dieWithParent makes the kernel kill the command when the guardian dies.
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }
