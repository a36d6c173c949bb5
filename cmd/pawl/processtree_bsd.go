//go:build unix && !linux

package main

import "syscall"

// These systems lack what Linux offers: a command outlives a guardian that is
// killed, and processes that left the command's process group are not found.

// A process is the command.
type process struct{ pid int }

func (p process) certain() bool { return true }

func (p process) send(n syscall.Signal) error { return syscall.Kill(p.pid, n) }

func (p process) sendGroup(n syscall.Signal) error { return syscall.Kill(-p.pid, n) }

func kill(pid int, n syscall.Signal) error { return syscall.Kill(pid, n) }

func signalled(int) bool { return true }

func descendantsOf(int, []int) []int { return nil }

func unlistedChildren(int, []int, func(int)) {}

func childrenNow() []int { return nil }

func adoptOrphans() error { return nil }

func (t processTree) unreachable(error) string { return "" } // for all commands, see docs/run.md

func prepareToKeep(*syscall.SysProcAttr, *int) {}

// A cgroup is a group of processes on Linux.
type cgroup struct{}

func makeCgroup() *cgroup { return nil }

func openCgroup(string) *cgroup { return nil }

func (c *cgroup) name() string { return "" }

func (c *cgroup) startIn(*syscall.SysProcAttr) (done func()) { return func() {} }

func (c *cgroup) members() []int { return nil }

func (c *cgroup) kill() {}

func (c *cgroup) remove() {}

func (c *guardianConn) sendStarted(p process) { c.send("started", int64(p.pid)) }

func (c *guardianConn) commandWith(pid int) process { return process{pid} }

func newProcess(pid, _ int) process { return process{pid} }
