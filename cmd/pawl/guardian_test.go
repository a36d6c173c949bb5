//go:build linux

package main

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// pawl is stopped, so the guardian kills the command. If the command forks all the
// time, one pass over its processes is not enough.
func TestTheGuardianEndsWhatForksWhileItIsBeingEnded(t *testing.T) {
	t.Parallel()
	env := newTestEnv(t)
	env.write("forks", `trap '' TERM; n=0; while [ $n -lt 3000 ]; do n=$((n+1)); (sleep 0.02; echo x >>alive) & sleep 0.003; done`)
	cmd := env.command("setsid", "-w", "pawl", "run", "--ttl", "3s", "--kill-after", "500ms", "x", "--", "sh", "-c",
		`echo $PPID >guardian; setsid sh forks & setsid sh forks & sh forks`)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	env.await("guardian")
	env.await("alive")
	pawl := env.pawlAbove("guardian")
	if err := syscall.Kill(pawl, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	rival := env.run("pawl", "run", "--ttl", "3s", "--kill-after", "500ms", "-w", "25s", "x", "--", "sh", "-c", `wc -l <alive; sleep 0.3; wc -l <alive`)
	if counts := strings.Fields(rival.out); rival.code != 0 || len(counts) != 2 || counts[0] != counts[1] {
		t.Errorf("a rival holds, and the command goes on: %+v", rival)
	}
	_ = syscall.Kill(pawl, syscall.SIGCONT)
	if code := exitOf(t, cmd.Wait()); code != exitLost {
		t.Errorf("exit code %d, want %d", code, exitLost)
	}
}

// The guardian is killed as soon as it exists, before or after it started the
// command. pawl must notice, kill what there is of the command, and release the
// lock.
func TestAGuardianThatEndsAtOnceIsNoticed(t *testing.T) {
	t.Parallel()
	env := newTestEnv(t)
	for _, sig := range []syscall.Signal{syscall.SIGKILL, syscall.SIGINT, syscall.SIGKILL, syscall.SIGINT} {
		cmd := env.command("pawl", "run", "x", "--", "sleep", "60")
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }() // waited for below
		var err error
		if !eventually(func() bool {
			// The first child of a Go program may just probe the kernel, so each
			// child is killed until pawl has noticed.
			for _, pid := range descendantsOf(cmd.Process.Pid, nil) {
				_ = syscall.Kill(pid, sig)
				break
			}
			select {
			case err = <-ended:
				return true
			default:
				return false
			}
		}) {
			t.Fatalf("%v: pawl goes on", sig)
		}
		if code := exitOf(t, err); code != exitSignal+int(sig) {
			t.Errorf("%v: exit code %d, want %d", sig, code, exitSignal+int(sig))
		}
		if free := env.run("pawl", "run", "-n", "x", "--", "true"); free.code != 0 {
			t.Errorf("%v: %+v", sig, free)
		}
	}
}

// A shell that execs pawl may have children, which are not the command's.
func TestChildrenFromBeforeAreLeftAlone(t *testing.T) {
	t.Parallel()
	env := newTestEnv(t)
	cmd := env.command("setsid", "-w", "sh", "-c", `sleep 60 & echo $! >older; exec pawl run --ttl 4s --kill-after 500ms x -- sh -c 'echo $PAWL_LOCK_TOKEN >token; sleep 60'`)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	env.evict("x", "token")
	if code := exitOf(t, cmd.Wait()); code != exitLost {
		t.Errorf("exit code %d, want %d", code, exitLost)
	}
	older, err := strconv.Atoi(strings.TrimSpace(env.read("older")))
	if err != nil {
		t.Fatal(err)
	}
	if !running(older) {
		t.Error("it was ended with the command")
	}
	_ = syscall.Kill(older, syscall.SIGKILL)
}

// A background command changes the terminal's modes, which stops it. The shell must
// see a stopped job, or fg would not resume it.
func TestACommandThatTheTerminalStopsIsBroughtBack(t *testing.T) {
	t.Parallel()
	env := newTestEnv(t)
	x := env.terminal(80, "bash", "-c", `set -m; pawl run x -- sh -c 'stty sane; echo done >done' & until jobs | grep -q Stopped; do sleep 0.02; done; fg; echo "code $?"`)
	x.shows("code 0")
	x.ends(0)
	env.await("done")
}

// pawl is upgraded while it waits: the guardian must be the program that waits.
func TestAPawlWhoseFileIsGoneRunsItsCommand(t *testing.T) {
	t.Parallel()
	program, err := exec.LookPath("pawl")
	if err != nil {
		t.Fatal(err)
	}
	for how, becomes := range map[string]string{"removed": "", "replaced": "#!/bin/sh\nexit 3\n"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			env := newTestEnv(t)
			env.hold("x")
			if err := os.Mkdir(env.path("bin"), 0o700); err != nil {
				t.Fatal(err)
			}
			old := env.path("bin/pawl")
			// By another process: a file that this one has open for writing could be inherited
			// by a command of another test, and cannot be run until that closes it.
			if out, err := exec.Command("cp", program, old).CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			cmd := env.command(old, "run", "--events", "waits", "x", "--", "true")
			cmd.Args[0] = "pawl"
			cmd.Stderr = t.Output()
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			env.await("waits")
			if err := os.Remove(old); err != nil {
				t.Fatal(err)
			}
			if becomes != "" {
				if err := os.WriteFile(old, []byte(becomes), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			env.release("x")
			if code := exitOf(t, cmd.Wait()); code != 0 {
				t.Errorf("exit code %d", code)
			}
		})
	}
}
