//go:build linux

package main

import (
	"errors"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/creack/pty"
)

// A terminal is a program with a controlling terminal of its own.
type terminal struct {
	t    *testing.T
	ptmx *os.File
	cmd  *exec.Cmd
	done chan error // receives the result of Wait

	mu   sync.Mutex
	text strings.Builder // guarded by mu: everything that was shown
}

// terminal runs a program on a terminal of that width.
func (env *testEnv) terminal(width uint16, name string, args ...string) *terminal {
	env.t.Helper()
	cmd := env.command(name, args...)
	ptmx, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 24, Cols: width}) // setsid and setctty
	if err != nil {
		env.t.Fatal(err)
	}
	ptmx = pollable(env.t, ptmx)
	x := &terminal{t: env.t, ptmx: ptmx, cmd: cmd, done: make(chan error, 1)}
	read := make(chan struct{})
	go func() { // ends when the last program has closed the terminal
		defer close(read)
		buf := make([]byte, 4096)
		for {
			n, err := ptmx.Read(buf)
			x.mu.Lock()
			x.text.Write(buf[:n])
			x.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	go func() { // ends with the program
		err := cmd.Wait()
		<-read
		x.done <- err
	}()
	env.t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Process.Kill()
		ptmx.Close()
	})
	return x
}

// pollable returns f in a form that Close can close during a read.
func pollable(t *testing.T, f *os.File) *os.File {
	t.Helper()
	fd, err := syscall.Dup(int(f.Fd()))
	if err == nil {
		syscall.CloseOnExec(fd)
		err = errors.Join(syscall.SetNonblock(fd, true), f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	return os.NewFile(uintptr(fd), f.Name())
}

func (x *terminal) shown() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.text.String()
}

func (x *terminal) types(keys string) {
	x.t.Helper()
	if _, err := x.ptmx.WriteString(keys); err != nil {
		x.t.Fatal(err)
	}
}

// shows waits until the terminal has shown a match.
func (x *terminal) shows(re string) {
	x.t.Helper()
	r := regexp.MustCompile(re)
	if !eventually(func() bool { return r.MatchString(x.shown()) }) {
		x.t.Fatalf("%q was never shown:\n%q", re, x.shown())
	}
}

// ends waits until the program ends and compares its exit code.
func (x *terminal) ends(code int) {
	x.t.Helper()
	if got := exitOf(x.t, <-x.done); got != code {
		x.t.Errorf("exit code %d, want %d:\n%q", got, code, x.shown())
	}
}
