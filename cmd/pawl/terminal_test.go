//go:build linux

package main

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pawl-go/pawl/internal/stalltest"
)

const ctrlC = "\x03"

func TestCtrlCReachesTheCommandOnce(t *testing.T) {
	t.Parallel()
	// Whether both processes received it depends on timing.
	stalltest.Succeeds(t, maxSkew/5, func() error {
		if got, want := interruptedTenTimes(t); got != want {
			return fmt.Errorf("the command has seen %q, want %q", got, want)
		}
		return nil
	})
}

// interruptedTenTimes returns the signals that a command on a terminal received,
// and those that were sent.
func interruptedTenTimes(t *testing.T) (got, want string) {
	t.Helper()
	env := newTestEnv(t)
	x := env.terminal(80, "pawl", "run", "x", "--", "sh", "-c",
		`cut -d " " -f 5 /proc/$$/stat /proc/$PPID/stat >group; exec listener got go`)
	env.await("got")
	heard := func(signal string, times int) {
		t.Helper()
		if !eventually(func() bool { return strings.Count(env.read("got"), signal) >= times }) {
			t.Fatalf("%s never arrived: %q", signal, env.read("got"))
		}
	}
	want = "ready\n"
	for n := range 10 { // the kernel may merge two signals that arrive close together
		x.types(ctrlC)
		heard("interrupt", n+1)
		// pawl forwards this one after an interrupt that it also forwarded.
		if err := x.cmd.Process.Signal(syscall.SIGUSR1); err != nil {
			t.Fatal(err)
		}
		heard("user defined signal 1", n+1)
		want += "interrupt\nuser defined signal 1\n"
	}
	env.write("go", "")
	x.ends(9)
	if g := strings.Fields(env.read("group")); len(g) != 2 || g[0] != g[1] {
		t.Errorf("process groups of command and pawl: %v; with a terminal they must be one", g)
	}
	if list := env.run("pawl", "ls", "--json"); strings.TrimSpace(list.out) != "[]" {
		t.Errorf("left behind: %s", list.out)
	}
	return env.read("got"), want
}

func TestCtrlCEndsACommandThatDoesNotCatchIt(t *testing.T) {
	t.Parallel()
	env := newTestEnv(t)
	x := env.terminal(80, "pawl", "run", "x", "--", "sh", "-c", `echo ready; exec sleep 60`)
	x.shows("ready")
	x.types(ctrlC)
	x.ends(130)
}

func TestTermWithATerminalIsForwarded(t *testing.T) {
	t.Parallel()
	env := newTestEnv(t)
	x := env.terminal(80, "pawl", "run", "x", "--", "sh", "-c", `trap 'echo TERM >>got; exit 4' TERM; echo ready; while :; do sleep 0.02; done`)
	x.shows("ready")
	if err := x.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	x.ends(4)
	if got := env.read("got"); got != "TERM\n" {
		t.Errorf("the command has seen %q", got)
	}
}

func TestACommandCanReadFromTheTerminal(t *testing.T) {
	t.Parallel()
	env := newTestEnv(t)
	x := env.terminal(80, "pawl", "run", "x", "--", "sh", "-c", `printf 'who? '; read who; echo "hello $who"`)
	x.shows(`who\? `)
	x.types("ana\n")
	x.shows("hello ana")
	x.ends(0)
}

func TestAPagerBehindTheCommandHasTheTerminal(t *testing.T) {
	t.Parallel()
	env := newTestEnv(t)
	// A shell with job control: each pipeline is a job.
	x := env.terminal(80, "sh", "-mc", `pawl run x -- seq 1 3 | sh -c 'printf "more? "; read key </dev/tty; cat; echo "key $key"'; echo "done $?"`)
	x.shows(`more\? `)
	x.types("q\n")
	x.shows("1\r\n2\r\n3\r\nkey q\r\ndone 0\r\n")
	x.ends(0)
}

func TestCtrlCEndsAWait(t *testing.T) {
	t.Parallel()
	env := newTestEnv(t)
	env.hold("x")
	x := env.terminal(80, "pawl", "run", "x", "--", "touch", "ran")
	x.shows(`1st in line`)
	x.types(ctrlC)
	x.ends(130)
	if _, err := os.Stat(env.path("ran")); err == nil {
		t.Error("the command ran all the same")
	}
	if text := x.shown(); !strings.Contains(text[strings.LastIndex(text, "in line"):], "\r\x1b[K") {
		t.Errorf("the line was not cleared: %q", text)
	}
}

func TestWaitingShowsOneLineThatIsRedrawnAndCleared(t *testing.T) {
	t.Parallel()
	env := newTestEnv(t)
	env.hold("x", "--reason", "release 4.2")
	x := env.terminal(200, "pawl", "run", "x", "--", "echo", "my turn")
	x.shows(`(?s)in line.*in line`) // drawn twice
	env.release("x")
	x.ends(0)
	text := x.shown()
	line := regexp.MustCompile(`\r\x1b\[Kwaiting for "x" [^ ]+ · held by [^ ]+@[^ ]+ pid \d+ sh for [^ ]+ \("release 4\.2"\) · 1st in line`)
	if n := len(line.FindAllString(text, -1)); n < 2 {
		t.Errorf("the line was drawn %d times: %q", n, text)
	}
	wait, after, _ := strings.Cut(text, "pawl: acquired")
	if !strings.HasSuffix(wait, "\r\x1b[K") || strings.Contains(wait, "\n") {
		t.Errorf("the line was not cleared in place: %q", text)
	}
	if !regexp.MustCompile(`^ "x" after \S+ \(token \d+\)\r\nmy turn\r\n$`).MatchString(after) {
		t.Errorf("after the wait: %q", after)
	}
}

func TestWaitingNeverWrapsOnANarrowTerminal(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"x", "a-name-that-is-longer-than-the-terminal-is-wide", "船🚀船🚀船🚀船🚀船🚀"} {
		for _, width := range []int{30, 7} {
			t.Run(fmt.Sprint(name, " in ", width), func(t *testing.T) {
				t.Parallel()
				env := newTestEnv(t)
				env.hold(name, "--reason", "a reason that is long enough")
				x := env.terminal(uint16(width), "pawl", "run", name, "--", "true")
				x.shows(`\x1b\[K.*…`)
				env.release(name)
				x.ends(0)
				text, _, _ := strings.Cut(x.shown(), "pawl: acquired")
				for _, line := range strings.Split(text, "\r\x1b[K") {
					if took := columnsOf(line); took >= width {
						t.Errorf("%d columns of %d: %q", took, width, line)
					}
				}
			})
		}
	}
}

// columnsOf counts columns as a terminal does: the wide characters used here take
// two.
func columnsOf(s string) (n int) {
	for _, r := range s {
		n++
		if strings.ContainsRune("船🚀", r) {
			n++
		}
	}
	return n
}

func TestADumbTerminalGetsPlainLines(t *testing.T) {
	t.Parallel()
	env := newTestEnv(t).with("TERM=dumb")
	env.hold("x")
	x := env.terminal(200, "pawl", "run", "x", "--", "true")
	x.shows(`pawl: waiting for "x" · held by .*\r\n`)
	env.release("x")
	x.ends(0)
	if text := x.shown(); strings.Contains(text, "\x1b") || strings.Contains(strings.ReplaceAll(text, "\r\n", ""), "\r") {
		t.Errorf("a dumb terminal was sent %q", text)
	}
}

func TestForceUnlockHasTheNameTyped(t *testing.T) {
	t.Parallel()
	env := newTestEnv(t)
	env.hold("x", "--ttl", "6s", "--kill-after", "1s")

	wrong := env.terminal(200, "pawl", "force-unlock", "x")
	wrong.shows(`Type the lock's name to break it: `)
	wrong.types("y\n")
	wrong.ends(1)
	if !strings.Contains(wrong.shown(), "that is not its name; nothing was done") {
		t.Errorf("a wrong name: %q", wrong.shown())
	}
	gone := env.terminal(200, "pawl", "force-unlock", "x")
	gone.shows(`Type the lock's name to break it: `)
	gone.types("\x04") // end of file
	gone.ends(1)
	if list := env.run("pawl", "ls"); !strings.Contains(list.out, "x ") {
		t.Fatalf("it was broken all the same: %q", list.out)
	}

	right := env.terminal(200, "pawl", "force-unlock", "x")
	right.shows(`x is held \(exclusive\) by [^ ]+ pid \d+ sh for `)
	right.shows(`Type the lock's name to break it: `)
	right.types("x\n")
	right.ends(0)
	if !regexp.MustCompile(`pawl: audit: time=\S+ by=\S+ pid=\d+ broke="x" token=\d+ id=\S+ holder="`).MatchString(right.shown()) {
		t.Errorf("no audit line: %q", right.shown())
	}
	if list := env.run("pawl", "ls", "--json"); strings.TrimSpace(list.out) != "[]" {
		t.Errorf("after it was broken: %s", list.out)
	}
}

func TestLsHasAHeadOnATerminalOnly(t *testing.T) {
	t.Parallel()
	env := newTestEnv(t)
	if p := env.run("pawl", "run", "x", "--", "true"); p.code != 0 { // creates an empty store
		t.Fatalf("%+v", p)
	}
	x := env.terminal(200, "pawl", "ls")
	x.ends(0)
	if !strings.HasPrefix(x.shown(), "NAME") {
		t.Errorf("on a terminal: %q", x.shown())
	}
	if p := env.run("pawl", "ls"); p.out != "" {
		t.Errorf("elsewhere: %q", p.out)
	}
}

const (
	ctrlS = "\x13"
	ctrlQ = "\x11"
)

// A user who stops the terminal to read must not keep the lock from everybody else.
func TestAStoppedTerminalDoesNotStopTheCommandFromBeginning(t *testing.T) {
	t.Parallel()
	env := newTestEnv(t)
	env.hold("x")
	x := env.terminal(80, "pawl", "run", "x", "--", "sh", "-c", "echo ran >ran")
	x.shows(`waiting for "x" [1-9]`)
	x.types(ctrlS)
	calm := x.shown()
	if !eventually(func() bool { // it is redrawn every second, unless the terminal has stopped
		before := calm
		time.Sleep(1500 * time.Millisecond)
		calm = x.shown()
		return calm == before
	}) {
		t.Fatal("the terminal does not stop")
	}
	env.release("x")
	env.await("ran")
	x.types(ctrlQ)
	x.shows(`acquired "x" after`)
	x.ends(0)
}
