package testserver

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"time"
)

// A process is one run of a program.
type process struct {
	cmd    *exec.Cmd
	exited chan struct{} // closed by startProcess's goroutine when the process has been waited for
	err    error         // of Wait; read after exited is closed
}

// startProcess starts cmd. The caller ends it and waits for exited.
func startProcess(cmd *exec.Cmd) (*process, error) {
	p := &process{cmd: cmd, exited: make(chan struct{})}
	started := make(chan error, 1)
	// Linux sends the parent death signal when the thread that created the child
	// ends, not the whole parent. Go's threads can end early: one does when a
	// goroutine that was locked to it returns. So this goroutine keeps its thread
	// until the child has ended. Stop, kill and Run wait for that.
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			p.err = cmd.Wait()
			close(p.exited)
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

func (p *process) pid() int { return p.cmd.Process.Pid }

func (p *process) ended() bool {
	select {
	case <-p.exited:
		return true
	default:
		return false
	}
}

// state describes how a process ended.
func (p *process) state() string { return p.cmd.ProcessState.String() }

// stop asks the process to end and waits. After limit it kills the process and
// returns an error.
func (p *process) stop(ask os.Signal, limit time.Duration) error {
	if err := p.signal(ask); err != nil {
		return errors.Join(err, p.kill())
	}
	// A stopped process handles signals only after it continues.
	if err := p.resume(); err != nil {
		return errors.Join(err, p.kill())
	}
	select {
	case <-p.exited:
		return nil
	case <-time.After(limit):
		return errors.Join(fmt.Errorf("still there %v after %v, killed", limit, ask), p.kill())
	}
}

// kill kills the process and waits for it. It is no error if the process has
// already ended.
func (p *process) kill() error {
	if err := p.signal(os.Kill); err != nil {
		return err
	}
	<-p.exited
	return nil
}

// signal sends sig. It is no error if the process has already ended. It cannot
// reach a later process with the same id, because os.Process knows whether its own
// was waited for.
func (p *process) signal(sig os.Signal) error {
	if err := p.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("signal %v: %w", sig, err)
	}
	return nil
}
