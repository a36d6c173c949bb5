package main

import (
	"os"
	"os/exec"
	"sync/atomic"
	"syscall"
	"time"
)

const defaultPath = "" // the system has its own

var caughtSignals = []os.Signal{os.Interrupt, syscall.SIGTERM}

// A child is the command. Windows has neither process groups to signal nor TERM:
// when the lock is lost the command alone is killed.
type child struct {
	cmd        *exec.Cmd
	pid        int
	done       chan int
	killedLate atomic.Bool
}

func start(cmd *exec.Cmd, _ *os.File, _ []syscall.Signal, _ time.Time) (*child, error) {
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	c := &child{cmd: cmd, pid: cmd.Process.Pid, done: make(chan int, 1)}
	go func() { // ends with the child
		_ = cmd.Wait()
		c.done <- cmd.ProcessState.ExitCode()
	}()
	return c, nil
}

// forward passes a signal on, but for Ctrl-C, which the console sends to both.
func (c *child) forward(n syscall.Signal) {
	if n != syscall.SIGINT {
		_ = c.cmd.Process.Kill()
	}
}

func (c *child) setDeadline(time.Time) {} // nobody is there to do it

func (c *child) signalAll(syscall.Signal) { _ = c.cmd.Process.Kill() }

func (c *child) killAll() {} // nobody else is known

func (c *child) killGuardian() {}

func statusCode(code int) int { return code }

func endedBySignal(int) bool { return false } // the console's modes are the command's own

func isGuardian([]string) bool { return false }

func guardianMain([]string) int { return exitUsage }
