package main

import (
	"os"
	"os/exec"
	"sync/atomic"
	"syscall"
	"time"
)

const defaultPath = "" // the system has its own

var caught = []os.Signal{os.Interrupt, syscall.SIGTERM}

// A child is the command. Windows has neither process groups to signal nor TERM:
// when the lock is lost the command alone is killed.
type child struct {
	cmd  *exec.Cmd
	pid  int
	done chan int
	late atomic.Bool
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

// pass passes a signal on, but for Ctrl-C, which the console sends to both.
func (c *child) pass(n syscall.Signal) {
	if n != syscall.SIGINT {
		_ = c.cmd.Process.Kill()
	}
}

func (c *child) endBy(time.Time) {} // nobody is there to do it

func (c *child) signalAll(syscall.Signal) { _ = c.cmd.Process.Kill() }

func (c *child) endAll() {} // nobody else is known

func (c *child) endGuardian() {}

func codeFrom(code int) int { return code }

func killed(int) bool { return false } // the console's modes are the command's own

func isGuardian([]string) bool { return false }

func guardianMain([]string) int { return exitUsage }
