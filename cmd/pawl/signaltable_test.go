//go:build linux

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// startMethod is one way to start pawl run, as listed in docs/run.md.
type startMethod struct {
	how      string
	before   []string // the command line before pawl
	terminal bool
	clean    bool // with an environment like cron's
	root     bool // needs namespaces
}

var startMethods = []startMethod{
	{how: "in a terminal", terminal: true},
	{how: "in a terminal, `timeout 60`", terminal: true, before: []string{"timeout", "60"}},
	{how: "in a terminal, `nohup`", terminal: true, before: []string{"nohup"}},
	{how: "in a terminal, `setsid`", terminal: true, before: []string{"setsid", "-w"}},
	{how: "from cron: no terminal, few variables", clean: true, before: []string{"setsid", "-w"}},
	{how: "from systemd: as cron, PIPE ignored", clean: true, before: []string{"setsid", "-w", "env", "--ignore-signal=PIPE"}},
	{how: "`timeout 60`, no terminal", before: []string{"setsid", "-w", "timeout", "60"}},
	{how: "`nohup`, no terminal", before: []string{"setsid", "-w", "nohup"}},
	{how: "by a script with `&`: INT and QUIT ignored", before: []string{"setsid", "-w", "sh", "-c", `"$@" & wait`, "sh"}},
	{how: "as process 1 of a container", root: true, before: []string{"setsid", "-w"}},
}

var numbers = []struct {
	sig        syscall.Signal
	name, word string
}{
	{syscall.SIGHUP, "HUP", "hangup"}, {syscall.SIGINT, "INT", "interrupt"}, {syscall.SIGQUIT, "QUIT", "quit"},
	{syscall.SIGTERM, "TERM", "terminated"}, {syscall.SIGUSR1, "USR1", "user defined signal 1"},
}

// TestTheTableOfWhatTheCommandReceivesIsTrue runs a command in every way that has a
// row in docs/run.md, and compares the row with what the command received.
func TestTheTableOfWhatTheCommandReceivesIsTrue(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "run.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range startMethods {
		t.Run(w.how, func(t *testing.T) {
			t.Parallel()
			if w.root {
				if namespaces() == "" {
					return // namespaces cannot be created here
				}
				w.before = append(append(w.before[:len(w.before):len(w.before)], strings.Fields(namespaces())...), "--pid", "--fork", "--mount-proc")
			}
			if row := w.row(t); !strings.Contains(string(text), row+"\n") {
				t.Errorf("docs/run.md lacks the row\n%s", row)
			}
		})
	}
}

// row starts pawl, sends it signals, and describes what the command received.
func (w startMethod) row(t *testing.T) string {
	env := newTestEnv(t)
	if w.clean {
		env.env = append([]string{"PATH=/usr/bin:/bin:" + os.Getenv("PATH")}, variables(env.dir)...)
	}
	argv := slices.Concat(w.before, []string{"pawl", "run", "x", "--", "sh", "-c",
		`grep ^SigIgn: /proc/self/status >ignored; exec listener got go`})
	var end func()
	if w.terminal {
		x := env.terminal(80, argv[0], argv[1:]...)
		end = func() { <-x.done }
	} else {
		cmd := env.command(argv[0], argv[1:]...)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		end = func() { _ = cmd.Wait() }
	}
	env.await("got")
	command := env.processReading("got")
	pawl := parentOf(parentOf(command))
	for _, n := range numbers {
		if err := syscall.Kill(pawl, n.sig); err != nil {
			t.Fatal(err)
		}
		env.waitForGuardian(pawl)
	}
	env.waitForGuardian(pawl) // the listener may have received two at once in another order
	var counts []string
	for _, n := range numbers {
		counts = append(counts, strconv.Itoa(strings.Count(env.read("got"), n.word+"\n")))
	}
	group := "pawl's"
	if env.groupOf(command) != env.groupOf(pawl) {
		group = "its own"
	}
	ignored := ignoredNames(t, env.read("ignored"))
	env.write("go", "")
	end()
	return fmt.Sprintf("| %s | %s | %s | %s |", w.how, group, strings.Join(counts, " | "), ignored)
}

// waitForGuardian waits until a signal sent to pawl has reached the command.
func (env *testEnv) waitForGuardian(pawl int) {
	env.t.Helper()
	before := strings.Count(env.read("got"), "signal 2")
	if err := syscall.Kill(pawl, syscall.SIGUSR2); err != nil {
		env.t.Fatal(err)
	}
	if !eventually(func() bool { return strings.Count(env.read("got"), "signal 2") > before }) {
		env.t.Fatalf("USR2 never came: %q", env.read("got"))
	}
}

// processReading finds the process that has a file open. The command itself may
// only know its pid in another namespace.
func (env *testEnv) processReading(file string) int {
	env.t.Helper()
	links, _ := filepath.Glob("/proc/[0-9]*/fd/*")
	for _, link := range links {
		if at, err := os.Readlink(link); err == nil && at == env.path(file) {
			pid, err := strconv.Atoi(strings.Split(link, "/")[2])
			if err != nil {
				env.t.Fatal(err)
			}
			return pid
		}
	}
	env.t.Fatalf("nobody has %s open", file)
	return 0
}

func (env *testEnv) groupOf(pid int) int {
	env.t.Helper()
	group, err := syscall.Getpgid(pid)
	if err != nil {
		env.t.Fatal(err)
	}
	return group
}

// ignoredNames parses the SigIgn line of a process.
func ignoredNames(t *testing.T, line string) string {
	t.Helper()
	set, err := strconv.ParseUint(strings.TrimSpace(strings.TrimPrefix(line, "SigIgn:")), 16, 64)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for n, name := range []string{1: "HUP", 2: "INT", 3: "QUIT", 13: "PIPE", 15: "TERM"} {
		if name != "" && set&(1<<(n-1)) != 0 {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}
