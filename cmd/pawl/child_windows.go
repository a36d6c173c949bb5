package main

import (
	"os"
	"os/exec"
	"sync/atomic"
	"syscall"
	"time"
)

const defaultPath = "" // exec.LookPath has its own default

var caughtSignals = []os.Signal{os.Interrupt, syscall.SIGTERM}

// A child is the command. Windows has neither process groups to signal nor SIGTERM:
// when the lock is lost, only the command itself is killed.
type child struct {
	cmd        *exec.Cmd
	pid        int
	done       chan int
	killedLate atomic.Bool
}

func start(cmd *exec.Cmd, _ *os.File, _ []syscall.Signal, _ time.Time, _ func(string)) (*child, error) {
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

// forward kills the command, except for Ctrl-C, which the console sends to both.
func (c *child) forward(n syscall.Signal) {
	if n != syscall.SIGINT {
		_ = c.cmd.Process.Kill()
	}
}

func (c *child) setDeadline(time.Time) {} // there is no guardian

func (c *child) signalAll(syscall.Signal) error { return c.cmd.Process.Kill() }

func (c *child) finish(bool) (survived bool) { return false } // descendants are not tracked

func (c *child) killGuardian() {}

func statusCode(code int) int { return code }

func endedBySignal(int) bool { return false } // the console keeps no modes

func isGuardian([]string) bool { return false }

func guardianMain([]string) int { return exitUsage }
