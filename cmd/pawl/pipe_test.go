//go:build linux

package main

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// closedPipe returns a pipe whose reader has gone.
func closedPipe(t *testing.T) *os.File {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	t.Cleanup(func() { w.Close() })
	return w
}

// fullPipe returns a full pipe that nobody reads for now: a pager that shows its
// first page, or a terminal after Ctrl-S.
func fullPipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); w.Close() })
	for size := 4096; size > 0; size /= 8 {
		for err = nil; err == nil; {
			_ = w.SetWriteDeadline(time.Now().Add(10 * time.Millisecond))
			_, err = w.Write(make([]byte, size))
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatal(err)
		}
	}
	return r, w
}

// startAndWait starts a program that is killed at the end of the test at the
// latest.
func (env *testEnv) startAndWait(cmd *exec.Cmd) (ended chan int) {
	env.t.Helper()
	if err := cmd.Start(); err != nil {
		env.t.Fatal(err)
	}
	ended = make(chan int, 1)
	go func() { // ends with the program
		_ = cmd.Wait()
		ws := cmd.ProcessState.Sys().(syscall.WaitStatus)
		ended <- statusCode(ws)
	}()
	env.t.Cleanup(func() { _ = cmd.Process.Kill() })
	return ended
}

// pid reads a process id from a file.
func (env *testEnv) pid(name string) int {
	env.t.Helper()
	env.await(name)
	pid, err := strconv.Atoi(strings.TrimSpace(env.read(name)))
	if err != nil {
		env.t.Fatal(err)
	}
	return pid
}

func checkExit(t *testing.T, ended chan int, want int) {
	t.Helper()
	select {
	case code := <-ended:
		if code != want {
			t.Errorf("exit code %d, want %d", code, want)
		}
	case <-time.After(testTimeout):
		t.Fatal("it does not end")
	}
}

// Messages about a loss must not delay the end of the command.
func TestACommandIsStoppedAlsoWhileNobodyReadsWhatPawlSays(t *testing.T) {
	t.Parallel()
	for _, flag := range []string{"stderr", "events"} {
		t.Run(flag, func(t *testing.T) {
			t.Parallel()
			env := newTestEnv(t)
			args := []string{"run", "--ttl", "4s", "--kill-after", "1s"}
			if flag == "events" {
				args = append(args, "--events", "/dev/fd/3")
			}
			cmd := env.command("pawl", append(args, "x", "--", "sh", "-c", "trap '' TERM; echo $$ >up; while :; do sleep 0.02; done")...)
			r, w := fullPipe(t)
			if cmd.Stderr = w; flag == "events" {
				cmd.Stderr, cmd.ExtraFiles = nil, []*os.File{w}
			}
			ended := env.startAndWait(cmd)
			pid := env.pid("up")
			env.start("writing", "writer", "locks.db", "writing")
			if !eventually(func() bool { return !running(pid) }) {
				t.Error("the command goes on after its lock was lost")
			}
			w.Close()
			said, read := "", make(chan struct{})
			go func() { // ends with pawl
				defer close(read)
				b, _ := io.ReadAll(r)
				said = string(b)
			}()
			checkExit(t, ended, 79)
			<-read
			if !strings.Contains(said, "lost") {
				t.Error("and nothing was said of it when there was room again")
			}
		})
	}
}

// Writing to a closed pipe kills a program that does not handle SIGPIPE: here while
// it holds a lock, or is about to store the command's result.
func TestAReaderThatHasGoneDoesNotEndPawlInTheMiddle(t *testing.T) {
	t.Parallel()
	env := newTestEnv(t)
	cmd := env.command("pawl", "run", "-v", "x", "--", "sh", "-c", "echo ran >ran")
	cmd.Stderr = closedPipe(t)
	checkExit(t, env.startAndWait(cmd), 0)
	if got := env.read("ran"); got != "ran\n" {
		t.Errorf("the command has written %q", got)
	}
	if list := env.run("pawl", "ls", "--json"); strings.TrimSpace(list.out) != "[]" {
		t.Errorf("left behind: %s", list.out)
	}

	cmd = env.command("pawl", "once", "--hold", "--replay", "k", "--", "sh", "-c", "while echo line; do :; done; exit 3")
	cmd.Stdout, cmd.Stderr = closedPipe(t), env.t.Output()
	checkExit(t, env.startAndWait(cmd), 141)
	if again := env.run("pawl", "once", "--hold", "--replay", "k", "--", "echo", "done"); again.code != 0 || again.out != "done\n" {
		t.Errorf("tried again after a failure: exit %d, %q, %q", again.code, again.out, again.err)
	}
}

// Either all of the output is kept, or none.
func TestOutputThatNobodyReadToItsEndIsNotRepeatedInPart(t *testing.T) {
	t.Parallel()
	env := newTestEnv(t)
	cmd := env.command("pawl", "once", "--replay", "k", "--", "sh", "-c", "trap '' PIPE; i=0; while [ $i -lt 2000 ]; do echo line $i; i=$((i+1)); done 2>errors; exit 0")
	cmd.Stdout = closedPipe(t)
	checkExit(t, env.startAndWait(cmd), 0)
	if again := env.run("pawl", "once", "--replay", "k", "--", "true"); again.code != 0 || again.out != "" || !strings.Contains(again.err, "not kept") {
		t.Errorf("exit %d, %d bytes of output, %q", again.code, len(again.out), again.err)
	}
}

// A pager reads when the user turns the page; the command has ended by then.
func TestOutputThatIsReadLateArrivesWhole(t *testing.T) {
	t.Parallel()
	env := newTestEnv(t)
	cmd := env.command("pawl", "once", "--replay", "k", "--", "sh", "-c", "echo $$ >up; head -c 100000 /dev/zero")
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	cmd.Stdout = w
	ended := env.startAndWait(cmd)
	w.Close()
	pid := env.pid("up")
	if !eventually(func() bool { return !running(pid) }) {
		t.Fatal("the command does not end")
	}
	select {
	case <-ended:
		t.Error("it does not wait for its reader")
	case <-time.After(2 * time.Second): // longer than it waits for a silent process that keeps the pipe open
	}
	if b, err := io.ReadAll(r); err != nil || len(b) != 100000 {
		t.Errorf("%d bytes arrived, %v", len(b), err)
	}
	checkExit(t, ended, 0)
}
