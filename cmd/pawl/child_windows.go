package main

import (
	"os"
	"os/exec"
	"syscall"
)

const defaultPath = "" // the system has its own

var caught = []os.Signal{os.Interrupt, syscall.SIGTERM}

// A child is the command. Windows has neither process groups to signal nor TERM:
// when the lock is lost the command alone is killed.
type child struct {
	cmd  *exec.Cmd
	done chan int
}

func start(cmd *exec.Cmd, _ *os.File) (*child, error) {
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	c := &child{cmd, make(chan int, 1)}
	go func() { // ends with the child
		_ = cmd.Wait()
		c.done <- cmd.ProcessState.ExitCode()
	}()
	return c, nil
}

func (c *child) forwards(n syscall.Signal) bool { return n != syscall.SIGINT } // the console sends that to both

func (c *child) signal(syscall.Signal) { _ = c.cmd.Process.Kill() }

func (c *child) signalAll(syscall.Signal) { _ = c.cmd.Process.Kill() }

func (c *child) endAll() {} // nobody else is known

func codeFrom(code int) int { return code }
