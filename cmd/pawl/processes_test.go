//go:build linux

package main

import (
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// evict breaks a lock with the token that its command has written to a file.
func (env *testEnv) evict(name, tokenFile string) {
	env.t.Helper()
	env.await(tokenFile)
	if broken := env.run("pawl", "force-unlock", "--token", strings.TrimSpace(env.read(tokenFile)), name); broken.code != 0 {
		env.t.Fatalf("force-unlock: %+v", broken)
	}
}

// expectProcessGone waits until the processes whose ids are in a file have ended.
func (env *testEnv) expectProcessGone(file string) {
	env.t.Helper()
	for _, word := range strings.Fields(env.read(file)) {
		pid, err := strconv.Atoi(word)
		if err != nil {
			env.t.Fatal(err)
		}
		if !eventually(func() bool { return !running(pid) }) {
			env.t.Fatalf("process %d of %s still runs", pid, file)
		}
	}
}

// The command is a shell with job control that gives the terminal to its jobs, and
// the terminal stops background writers, which pawl is then. When the lock is lost,
// neither may keep pawl from killing everything. The messages are printed when the
// terminal is free again.
func TestALostLockEndsAShellWithJobsOnATerminalThatStopsWriters(t *testing.T) {
	t.Parallel()
	env := newTestEnv(t)
	env.write("job", `echo $$ >>pids; echo $PAWL_LOCK_TOKEN >token; trap '' TERM; while :; do sleep 0.05; done`)
	env.write("shell", `set -m; stty tostop; echo $$ >pids; trap '' TERM; sh job`)
	x := env.terminal(80, "sh", "-c", `pawl run --ttl 4s --kill-after 500ms x -- bash shell; code=$?; stty -tostop; exit $code`)
	env.evict("x", "token")
	env.expectProcessGone("pids")
	x.ends(exitLost)
	x.shows(`pawl: lost "x": .*; stopping bash \(TERM, KILL in [0-9]+ms\)\r\n(.*\n)*pawl: command ended`)
}

// A program in raw mode that is killed cannot restore the terminal itself.
func TestTheModesOfATerminalAreRestoredAfterAKill(t *testing.T) {
	t.Parallel()
	env := newTestEnv(t)
	env.write("raw", `stty raw -echo; echo $PAWL_LOCK_TOKEN >token; trap '' TERM; while :; do sleep 0.05; done`)
	x := env.terminal(80, "sh", "-c", `stty -a >before; pawl run --ttl 4s --kill-after 500ms x -- sh raw; stty -a >after`)
	env.evict("x", "token")
	x.ends(0)
	if before, after := env.read("before"), env.read("after"); before != after {
		t.Errorf("the terminal was\n%sand is\n%s", before, after)
	}
	// A command that ends normally may have changed the modes on purpose.
	y := env.terminal(80, "sh", "-c", `pawl run x -- stty -echo; stty -a >after`)
	y.ends(0)
	if after := env.read("after"); !strings.Contains(after, " -echo ") {
		t.Errorf("the command has turned echo off, and the terminal is\n%s", after)
	}
}

// The user types while a job waits in the background.
func TestAJobInTheBackgroundDoesNotWriteOverWhatIsTyped(t *testing.T) {
	t.Parallel()
	env := newTestEnv(t)
	env.hold("x")
	for mode, says := range map[string]bool{"-tostop": true, "tostop": false} {
		x := env.terminal(80, "bash", "-c", `set -m; stty `+mode+`; pawl run -w 2s x -- true & sleep 1; echo middle; wait $!; echo "code $?"; stty -tostop`)
		x.ends(0)
		shown := x.shown()
		x.shows("code 75")
		if strings.Contains(shown, "\x1b[K") || strings.Contains(shown, "waiting for") {
			t.Errorf("%s: a line was drawn from the background:\n%q", mode, shown)
		}
		if got := strings.Contains(shown, `pawl: "x" is busy`); got != says {
			t.Errorf("%s: that it is busy was said: %v, want %v:\n%q", mode, got, says, shown)
		}
	}
	env.release("x")
}

// readSignals returns what runListener has logged, without its first word.
func (env *testEnv) readSignals(file string) string {
	return strings.TrimPrefix(strings.ReplaceAll(env.read(file), "\n", " "), "ready ")
}

// waitUntilReady waits until a signal sent to pawl has arrived: all earlier ones
// have arrived by then.
func (env *testEnv) waitUntilReady(pawl int, file string) {
	env.t.Helper()
	if err := syscall.Kill(pawl, syscall.SIGUSR2); err != nil {
		env.t.Fatal(err)
	}
	if !eventually(func() bool { return strings.Contains(env.read(file), "user defined signal 2") }) {
		env.t.Fatalf("USR2 never came: %q", env.read(file))
	}
}

// pawlAbove returns the pid of the pawl above a guardian whose pid is in a file.
func (env *testEnv) pawlAbove(file string) int {
	env.t.Helper()
	guardian, err := strconv.Atoi(strings.TrimSpace(env.read(file)))
	if err != nil {
		env.t.Fatal(err)
	}
	return parentOf(guardian)
}

// fireTimeout makes the timeout command that started pawl act as if its time were
// up: its own timer sends it this signal.
func fireTimeout(pawl int) { _ = syscall.Kill(parentOf(pawl), syscall.SIGALRM) }

const listening = `echo $PPID >guardian; exec listener got go`

func TestEverySignalAtATerminalReachesTheCommandOnce(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		argv []string
		send func(env *testEnv, x *terminal, pawl int)
		want string
	}{
		"timeout": {[]string{"timeout", "60", "pawl", "run", "x", "--", "sh", "-c", listening},
			func(env *testEnv, x *terminal, pawl int) { fireTimeout(pawl) }, "terminated "},
		"kill -INT pawl": {[]string{"pawl", "run", "x", "--", "sh", "-c", listening},
			func(env *testEnv, x *terminal, pawl int) { _ = syscall.Kill(pawl, syscall.SIGINT) }, "interrupt "},
		"kill -TERM pawl": {[]string{"pawl", "run", "x", "--", "sh", "-c", listening},
			func(env *testEnv, x *terminal, pawl int) { _ = syscall.Kill(pawl, syscall.SIGTERM) }, "terminated "},
		"kill -TERM of the guardian, which the command takes for its parent": {[]string{"pawl", "run", "x", "--", "sh", "-c", listening},
			func(env *testEnv, x *terminal, pawl int) {
				g, _ := strconv.Atoi(strings.TrimSpace(env.read("guardian")))
				_ = syscall.Kill(g, syscall.SIGTERM)
			}, "terminated "},
		"kill -HUP of the group": {[]string{"pawl", "run", "x", "--", "sh", "-c", listening},
			func(env *testEnv, x *terminal, pawl int) { _ = syscall.Kill(-pawl, syscall.SIGHUP) }, "hangup "},
		"the terminal is closed": {[]string{"pawl", "run", "x", "--", "sh", "-c", listening},
			func(env *testEnv, x *terminal, pawl int) { _ = x.ptmx.Close() }, "hangup "},
		"kill -USR1 pawl, again and again": {[]string{"pawl", "run", "x", "--", "sh", "-c", listening},
			func(env *testEnv, x *terminal, pawl int) {
				for n := range 3 {
					_ = syscall.Kill(pawl, syscall.SIGUSR1)
					eventually(func() bool { return strings.Count(env.read("got"), "signal 1") > n })
				}
			}, "user defined signal 1 user defined signal 1 user defined signal 1 "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := newTestEnv(t)
			x := env.terminal(80, c.argv[0], c.argv[1:]...)
			env.await("got")
			pawl := env.pawlAbove("guardian")
			c.send(env, x, pawl)
			if !eventually(func() bool { return env.readSignals("got") != "" }) {
				t.Fatal("nothing came")
			}
			env.waitUntilReady(pawl, "got")
			env.write("go", "")
			if got := env.readSignals("got"); got != c.want+"user defined signal 2 " {
				t.Errorf("the command has got %q, want %q", got, c.want+"user defined signal 2 ")
			}
			<-x.done
		})
	}
}

// Without a terminal, timeout signals pawl and then pawl's process group.
func TestTimeoutWithoutATerminalSignalsTheCommandOnce(t *testing.T) {
	t.Parallel()
	env := newTestEnv(t)
	cmd := env.command("setsid", "-w", "timeout", "60", "pawl", "run", "x", "--", "sh", "-c", listening)
	cmd.Stderr = t.Output()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	env.await("got")
	pawl := env.pawlAbove("guardian")
	fireTimeout(pawl)
	if !eventually(func() bool { return env.readSignals("got") != "" }) {
		t.Fatal("nothing came")
	}
	env.waitUntilReady(pawl, "got")
	env.write("go", "")
	_ = cmd.Wait()
	if got, want := env.readSignals("got"), "terminated user defined signal 2 "; got != want {
		t.Errorf("the command has got %q, want %q", got, want)
	}
}

// The signals with which a shell stops and resumes a job reach all its processes.
// The guardian does not stop, and kills a command that is stopped for longer than
// its lease.
func TestACommandThatIsStoppedForLongerThanItsLeaseIsEnded(t *testing.T) {
	t.Parallel()
	env := newTestEnv(t)
	x := env.terminal(80, "bash", "-c", `set -m; pawl run --ttl 3s --kill-after 500ms x -- sh -c 'echo $$ >pid; while :; do sleep 0.05; done'; echo "stopped $?"; touch stopped; until [ -e go ]; do sleep 0.02; done; fg; exit $?`)
	env.await("pid")
	x.types("\x1a") // Ctrl-Z
	if !eventually(func() bool { _, err := os.Stat(env.path("stopped")); return err == nil }) {
		t.Fatalf("the job was never stopped:\n%q", x.shown())
	}
	if rival := env.run("pawl", "run", "-w", "25s", "x", "--", "true"); rival.code != 0 {
		t.Fatalf("a rival: %+v", rival)
	}
	env.expectProcessGone("pid")
	env.write("go", "")
	x.ends(exitLost)
}

func TestWhatTheTerminalStopsIsAsEverInTheCommand(t *testing.T) {
	t.Parallel()
	env := newTestEnv(t)
	bare := env.run("grep", "^Sig[IC]", "/proc/self/status")
	under := env.run("pawl", "run", "x", "--", "grep", "^Sig[IC]", "/proc/self/status")
	if bare.out != under.out {
		t.Errorf("dispositions without pawl\n%sand under it\n%s", bare.out, under.out)
	}
	for _, sig := range []string{"HUP", "INT", "TSTP", "TTIN", "TTOU"} {
		bare := env.run("env", "--ignore-signal="+sig, "grep", "^SigIgn", "/proc/self/status")
		under := env.run("env", "--ignore-signal="+sig, "pawl", "run", "x", "--", "grep", "^SigIgn", "/proc/self/status")
		if bare.code != 0 || bare.out != under.out {
			t.Errorf("with %s ignored: %q without pawl, %q under it", sig, bare.out, under.out)
		}
	}
}
