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

// A testEnv is a folder with a store, and an environment for programs.
type testEnv struct {
	t   *testing.T
	dir string
	env []string
}

func newTestEnv(t *testing.T) *testEnv {
	dir := t.TempDir()
	t.Cleanup(func() { endIn(dir) })
	env := append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir}, variables(dir)...)
	return &testEnv{t, dir, env}
}

// with returns the environment with further variables; the last of a name counts.
func (env *testEnv) with(vars ...string) *testEnv {
	return &testEnv{env.t, env.dir, append(env.env[:len(env.env):len(env.env)], vars...)}
}

func (env *testEnv) path(name string) string { return filepath.Join(env.dir, name) }

func (env *testEnv) command(name string, args ...string) *exec.Cmd {
	env.t.Helper()
	program, err := exec.LookPath(name)
	if err != nil {
		env.t.Fatal(err)
	}
	cmd := exec.Command(program, args...)
	cmd.Args[0] = name
	cmd.Dir, cmd.Env = env.dir, env.env
	return cmd
}

// A commandResult is the outcome of a program.
type commandResult struct {
	out, err string
	code     int
}

func (env *testEnv) run(name string, args ...string) commandResult {
	env.t.Helper()
	cmd := env.command(name, args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	code := exitOf(env.t, cmd.Run())
	return commandResult{out.String(), errs.String(), code}
}

// exitOf returns a program's exit code, 128+n if a signal ended it.
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

// start starts a program that runs at most as long as the test, and waits until it
// has created a file.
func (env *testEnv) start(ready, name string, args ...string) *exec.Cmd {
	env.t.Helper()
	cmd := env.command(name, args...)
	cmd.Stderr, cmd.WaitDelay = env.t.Output(), time.Second
	if err := cmd.Start(); err != nil {
		env.t.Fatal(err)
	}
	env.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	env.await(ready)
	return cmd
}

// hold holds a lock until release. The holder's flags come before its name.
func (env *testEnv) hold(name string, flags ...string) {
	env.t.Helper()
	env.fifo("go-" + name)
	args := append([]string{"run"}, flags...)
	env.start("held-"+name, "pawl", append(args, name, "sh", "-c", `exec 3<>"go-$0"; echo held >"held-$0"; read end <&3`, name)...)
}

// holdAll holds several locks with one process, until release of the first.
func (env *testEnv) holdAll(first string, names ...string) {
	env.t.Helper()
	var flags []string
	for _, name := range names {
		flags = append(flags, "--also="+name)
	}
	env.hold(first, append(flags, "--")...)
}

func (env *testEnv) release(name string) { env.signalFIFO("go-" + name) }

// fifo creates a named pipe on which a shell can wait, instead of polling with
// fifty processes a second: exec 3<>NAME; read end <&3.
func (env *testEnv) fifo(name string) {
	env.t.Helper()
	if err := syscall.Mkfifo(env.path(name), 0o600); err != nil {
		env.t.Fatal(err)
	}
}

// signalFIFO wakes the shell that waits on a named pipe, if it still exists.
func (env *testEnv) signalFIFO(name string) {
	env.t.Helper()
	fd, err := syscall.Open(env.path(name), syscall.O_WRONLY|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	switch {
	case err == syscall.ENXIO: // without a reader: the shell has ended
		return
	case err == nil:
		_, err = syscall.Write(fd, []byte("\n"))
		_ = syscall.Close(fd)
	}
	if err != nil {
		env.t.Fatal(err)
	}
}

func (env *testEnv) write(name, text string) {
	env.t.Helper()
	if err := os.WriteFile(env.path(name), []byte(text), 0o600); err != nil {
		env.t.Fatal(err)
	}
}

func (env *testEnv) read(name string) string {
	env.t.Helper()
	b, err := os.ReadFile(env.path(name))
	if err != nil {
		env.t.Fatal(err)
	}
	return string(b)
}

// await waits until a file has a complete line.
func (env *testEnv) await(name string) {
	env.t.Helper()
	if !eventually(func() bool {
		b, err := os.ReadFile(env.path(name))
		return err == nil && strings.Contains(string(b), "\n")
	}) {
		env.t.Fatalf("%s never came", name)
	}
}
