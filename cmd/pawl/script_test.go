//go:build unix

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestScripts(t *testing.T) {
	t.Parallel()
	deadline, ok := t.Deadline() // so that a script that hangs says where
	if ok {
		deadline = deadline.Add(-testTimeout)
	}
	testscript.Run(t, testscript.Params{
		Dir:                 filepath.Join("testdata", "script"),
		Deadline:            deadline,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			env.Vars = append(env.Vars, variables(env.WorkDir)...)
			env.Defer(func() { endIn(env.WorkDir) })
			env.Setenv("PATH", os.Getenv("PATH")+":/usr/sbin:/sbin")
			env.Setenv("namespaces", namespaces())
			env.Setenv("unprivileged", "")
			if os.Getuid() == 0 { // root's rights would hide what others see
				env.Setenv("unprivileged", "setpriv --bounding-set=-dac_override,-dac_read_search")
			}
			return nil
		},
		Condition: func(cond string) (bool, error) {
			if cond != "namespaces" {
				return false, fmt.Errorf("unknown condition %q", cond)
			}
			return exec.Command("sh", "-c", namespaces()+" --pid --fork --mount-proc true").Run() == nil, nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"exits": exits, "await": await, "says": says, "await-gone": awaitGone, "earlier": earlier,
		},
	})
}

// namespaces returns a command that runs another in its own namespaces.
func namespaces() string {
	if os.Getuid() == 0 {
		return "unshare"
	}
	return "unshare --user --map-root-user"
}

// exits runs a program that must exit with a code: exits CODE PROGRAM ARGS.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE PROGRAM ARGS")
	}
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		exit, ok := errors.AsType[*exec.ExitError](err)
		if !ok {
			ts.Fatalf("%v", err)
		}
		got = exit.ExitCode()
	}
	if strconv.Itoa(got) != args[0] {
		ts.Fatalf("exit code %d, want %s", got, args[0])
	}
}

// says checks that the last program printed exactly one error line, beginning with
// pawl's prefix, that contains the words: says WORDS.
func says(ts *testscript.TestScript, neg bool, args []string) {
	text := ts.ReadFile("stderr")
	if neg || len(args) != 1 {
		ts.Fatalf("usage: says WORDS")
	}
	if strings.Count(text, "\n") != 1 || !strings.HasPrefix(text, "pawl: ") || !strings.Contains(text, args[0]) {
		ts.Fatalf("stderr is not one line of pawl's with %q", args[0])
	}
}

// await waits until a file has a line, or that many: await FILE [LINES].
func await(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 || len(args) > 2 {
		ts.Fatalf("usage: await FILE [LINES]")
	}
	want := 1
	if len(args) == 2 {
		n, err := strconv.Atoi(args[1])
		ts.Check(err)
		want = n
	}
	path := ts.MkAbs(args[0])
	if !eventually(func() bool {
		b, err := os.ReadFile(path)
		return err == nil && strings.Count(string(b), "\n") >= want
	}) {
		ts.Fatalf("%s never had %d lines", args[0], want)
	}
}

// awaitGone waits until the processes whose ids are in the files have ended:
// await-gone FILE...
func awaitGone(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: await-gone FILE...")
	}
	for _, file := range args {
		for _, word := range strings.Fields(ts.ReadFile(file)) {
			pid, err := strconv.Atoi(word)
			ts.Check(err)
			if !eventually(func() bool { return !running(pid) }) {
				ts.Fatalf("process %d of %s still runs", pid, file)
			}
		}
	}
}

// earlier checks that the time in one file, in ns, is before that in another, and
// logs by how much: earlier FILE FILE.
func earlier(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: earlier FILE FILE")
	}
	var at [2]int64
	for i, file := range args {
		n, err := strconv.ParseInt(strings.TrimSpace(ts.ReadFile(file)), 10, 64)
		ts.Check(err)
		at[i] = n
	}
	between := time.Duration(at[1] - at[0])
	ts.Logf("%s comes %v before %s", args[0], between, args[1])
	if between < 0 {
		ts.Fatalf("%s comes %v after %s", args[0], -between, args[1])
	}
}
