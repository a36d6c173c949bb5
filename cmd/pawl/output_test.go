//go:build linux

package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// Exit code 0 says that all was well and was said, and 1 is a verdict.
func TestOutputThatCannotBeWrittenIsNoVerdict(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args string
		want int // with a full disk; SIGPIPE ends pawl if nobody reads
	}{
		{"doctor", exitBroken},
		{"doctor --json", exitBroken},
		{"verify --for 1s --faults none", exitCannotRun},
		{"verify --for 1s --faults none --json", exitCannotRun},
		{"ls", exitOutput},
		{"ls --json", exitOutput},
		{"inspect held", exitOutput},
		{"inspect --json held", exitOutput},
		{"watch", exitOutput},
		{"bench --for 20ms alone", exitOutput},
		{"version", exitOutput},
		{"run --help", exitOutput},
		{"completion bash", exitOutput},
		{"once --replay k -- true", exitOutput},
	} {
		t.Run(c.args, func(t *testing.T) {
			t.Parallel()
			// A holder of the whole test could be gone: a parallel subtest waits for all other
			// tests to begin, and a pawl under test ends after two minutes.
			env := newTestEnv(t)
			env.hold("held")
			if first := env.run("pawl", "once", "--replay", "--any", "k", "--", "sh", "-c", "echo output; exit 3"); first.code != 3 {
				t.Fatalf("once: %+v", first)
			}
			full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer full.Close()
			for file, want := range map[*os.File]int{full: c.want, closedPipe(t): 141} {
				cmd := env.command("pawl", strings.Fields(c.args)...)
				cmd.Stdout = file
				var said strings.Builder
				cmd.Stderr = &said
				if code := exitOf(t, cmd.Run()); code != want {
					t.Errorf("exit code %d, want %d: %s; ls shows %+v", code, want, said.String(), env.run("pawl", "ls", "--json"))
				}
				if file == full && !strings.HasSuffix(said.String(), "pawl: standard output: no space left on device\n") {
					t.Errorf("pawl says %q", said.String())
				}
			}
		})
	}
}

// A named pipe cannot be opened for writing before somebody reads from it.
func TestEventsDoNotWaitForeverForAReader(t *testing.T) {
	t.Parallel()
	env := newTestEnv(t).with(contactEnv + "=300ms")
	env.fifo("events")
	for _, flags := range [][]string{{"run", "-n"}, {"run", "-w", "100ms"}, {"run"}, {"once"}} {
		argv := append(flags, "--events", "events", "x", "--", "touch", "ran")
		p := env.run("timeout", append([]string{"20", "pawl"}, argv...)...)
		if p.code != exitUsage || p.err != "pawl: --events events: nobody reads from this pipe\n" {
			t.Errorf("%v: %+v", argv, p)
		}
	}
	if _, err := os.Stat(env.path("ran")); err == nil {
		t.Error("a command has run")
	}
	// A reader that comes a little later gets all events.
	env = env.with(contactEnv + "=" + testTimeout.String())
	cmd := env.command("pawl", "run", "--events", "events", "x", "--", "true")
	cmd.Stderr = t.Output()
	ended := env.startAndWait(cmd)
	select {
	case code := <-ended:
		t.Fatalf("exit code %d before there was a reader", code)
	case <-time.After(100 * time.Millisecond): // most probably it has tried by now; the test is right either way
	}
	got, err := exec.Command("timeout", "20", "cat", env.path("events")).Output()
	if err != nil || strings.Count(string(got), "\n") != 3 || !strings.Contains(string(got), `"released"`) {
		t.Errorf("the reader has got %q, %v", got, err)
	}
	checkExit(t, ended, 0)
}
