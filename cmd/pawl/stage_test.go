//go:build unix

package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A stage is a folder with a store, and an environment for programs.
type stage struct {
	t   *testing.T
	dir string
	env []string
}

func newStage(t *testing.T) *stage {
	dir := t.TempDir()
	t.Cleanup(func() { endIn(dir) })
	env := append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir}, variables(dir)...)
	return &stage{t, dir, env}
}

// with is the stage with further variables; the last of a name counts.
func (s *stage) with(vars ...string) *stage {
	return &stage{s.t, s.dir, append(s.env[:len(s.env):len(s.env)], vars...)}
}

func (s *stage) path(name string) string { return filepath.Join(s.dir, name) }

func (s *stage) command(name string, args ...string) *exec.Cmd {
	s.t.Helper()
	program, err := exec.LookPath(name)
	if err != nil {
		s.t.Fatal(err)
	}
	cmd := exec.Command(program, args...)
	cmd.Args[0] = name
	cmd.Dir, cmd.Env = s.dir, s.env
	return cmd
}

// A play is what came of a program.
type play struct {
	out, err string
	code     int
}

func (s *stage) run(name string, args ...string) play {
	s.t.Helper()
	cmd := s.command(name, args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	code := exitOf(s.t, cmd.Run())
	return play{out.String(), errs.String(), code}
}

// exitOf is a program's exit code, 128+n if a signal ended it.
func exitOf(t *testing.T, err error) int {
	t.Helper()
	if err == nil {
		return 0
	}
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok {
		t.Fatal(err)
	}
	if ws, ok := exit.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return exit.ExitCode()
}

// begin starts a program that lasts as long as the test at most, and waits until
// it has made a file.
func (s *stage) begin(ready, name string, args ...string) *exec.Cmd {
	s.t.Helper()
	cmd := s.command(name, args...)
	cmd.Stderr, cmd.WaitDelay = s.t.Output(), time.Second
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	s.await(ready)
	return cmd
}

// hold has a lock held until letGo. The holder's flags come before its name.
func (s *stage) hold(name string, flags ...string) {
	s.t.Helper()
	s.ear("go-" + name)
	args := append([]string{"run"}, flags...)
	s.begin("held-"+name, "pawl", append(args, name, "sh", "-c", `exec 3<>"go-$0"; echo held >"held-$0"; read end <&3`, name)...)
}

// holdAll has several locks held by one holder, which letGo of the first ends.
func (s *stage) holdAll(first string, names ...string) {
	s.t.Helper()
	var flags []string
	for _, name := range names {
		flags = append(flags, "--also="+name)
	}
	s.hold(first, append(flags, "--")...)
}

func (s *stage) letGo(name string) { s.tell("go-" + name) }

// ear makes a pipe on which a shell waits to be told to go on, where a loop would start
// fifty programs a second: exec 3<>NAME; read end <&3.
func (s *stage) ear(name string) {
	s.t.Helper()
	if err := syscall.Mkfifo(s.path(name), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// tell tells the shell that waits on a pipe to go on, if it is still there.
func (s *stage) tell(name string) {
	s.t.Helper()
	fd, err := syscall.Open(s.path(name), syscall.O_WRONLY|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	switch {
	case err == syscall.ENXIO: // nobody reads: it has ended
		return
	case err == nil:
		_, err = syscall.Write(fd, []byte("\n"))
		_ = syscall.Close(fd)
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *stage) write(name, text string) {
	s.t.Helper()
	if err := os.WriteFile(s.path(name), []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

func (s *stage) read(name string) string {
	s.t.Helper()
	b, err := os.ReadFile(s.path(name))
	if err != nil {
		s.t.Fatal(err)
	}
	return string(b)
}

// await waits until a file has a whole line.
func (s *stage) await(name string) {
	s.t.Helper()
	if !eventually(func() bool {
		b, err := os.ReadFile(s.path(name))
		return err == nil && strings.Contains(string(b), "\n")
	}) {
		s.t.Fatalf("%s never came", name)
	}
}
