//go:build linux

package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

func TestWhatNeedsAStoreThatIsThereMakesNone(t *testing.T) {
	t.Parallel()
	env := newTestEnv(t)
	for _, args := range [][]string{{"force-unlock", "x"}, {"force-unlock", "--token", "1", "x"}, {"elect", "x"}, {"once", "--forget", "x"}} {
		p := env.run("pawl", append([]string{"-s", "sqlite:tpyo.db"}, args...)...)
		if p.code != 69 || !strings.Contains(p.err, "no such file") || p.out != "" {
			t.Errorf("%v of a file that is not there: %+v", args, p)
		}
	}
	env = env.with("PAWL_STORE=local:") // cannot be misspelt
	if p := env.run("pawl", "force-unlock", "x"); p.code != 1 || !strings.Contains(p.err, `"x" is not held by anybody`) {
		t.Errorf("force-unlock where nothing was ever locked: %+v", p)
	}
	if p := env.run("pawl", "elect", "x"); p.code != 75 {
		t.Errorf("elect where nothing was ever locked: %+v", p)
	}
	if files, _ := os.ReadDir(env.dir); len(files) != 0 {
		t.Errorf("made: %v", files)
	}
}

func TestWatchSaysHowManyAreAhead(t *testing.T) {
	t.Parallel()
	env := newTestEnv(t)
	env.hold("x")
	for _, n := range []string{"1", "2"} {
		env.start("w"+n, "pawl", "run", "-q", "--events", env.path("w"+n), "x", "--", "true")
		if !eventually(func() bool { return len(env.list("inspect", "--json", "x")) == len(n)+int(n[0]-'0') }) {
			t.Fatal("it never stood in line")
		}
	}
	watch, said := env.watch("x")
	defer func() { _ = watch.Process.Kill(); _ = watch.Wait() }()
	var ahead []any
	for range 3 {
		ahead = append(ahead, said()["ahead"])
	}
	if ahead[0] != nil || ahead[1] != 1.0 || ahead[2] != 2.0 {
		t.Errorf("ahead of each: %v", ahead)
	}
}

// The hints are pasted into real shells and must lead to the lock they are about.
func TestHintsCanBePasted(t *testing.T) {
	t.Parallel()
	env := newTestEnv(t)
	sh := []string{"bash"}
	if zsh, err := exec.LookPath("zsh"); err == nil {
		sh = append(sh, zsh)
	}
	inspect := regexp.MustCompile(`look with: (pawl .*); store `)
	names := []string{"-x", "--json", "a b", "it's", `say "hi"`, "$HOME", "a;b", "=ls", "~", "*", "#x", "!x", `back\slash`, "zero\u200bwidth", "größer", "a&b|c>d", "%1", "^a", "{a,b}"}
	env.holdAll(names[0], names[1:]...)
	for i, name := range names {
		flags, at := []string(nil), env
		if i%4 == 0 { // quoting does not depend on the store
			flags, at = []string{"-s", "sqlite:" + env.path("locks.db")}, env.with("PAWL_STORE=sqlite:"+env.path("other.db"))
		}
		p := env.run("pawl", append(flags, "run", "-n", "--", name, "true")...)
		m := inspect.FindStringSubmatch(p.err)
		if m == nil || p.code != 75 {
			t.Fatalf("%q: %+v", name, p)
		}
		// Each shell splits it into words, which are then run.
		var first string
		for _, shell := range sh {
			got := at.run(shell, "-c", "pawl() { printf '%s\\n' \"$@\"; }; "+strings.Replace(m[1], "inspect", "inspect --json", 1))
			if first == "" {
				first = got.out
			}
			if got.code != 0 || got.out == "" || got.out != first {
				t.Errorf("%s: %s\n%+v, and %s has %q", shell, m[1], got, sh[0], first)
			}
		}
		var held []object
		got := at.run("pawl", strings.Split(strings.TrimSuffix(first, "\n"), "\n")...)
		if err := json.Unmarshal([]byte(got.out), &held); err != nil || got.code != 0 || len(held) != 1 || held[0]["name"] != name || held[0]["state"] != "held" {
			t.Errorf("%s: %v\n%+v", m[1], err, got)
		}
	}
	// The name in an invalid command line can be anything.
	usage := regexp.MustCompile(`: (pawl run) \[flags\] (.*) -- COMMAND`)
	for _, name := range []string{"", "-x", "a\nb", "\xff\xfe'", "tab\t", "\x1b[31m"} {
		p := env.run("pawl", "run", "--", name)
		m := usage.FindStringSubmatch(p.err)
		if m == nil || p.code != 64 {
			t.Fatalf("%q: %+v", name, p)
		}
		for _, shell := range sh {
			got := env.run(shell, "-c", "pawl() { shift; [ \"$1\" != -- ] || shift; printf %s \"$1\"; }; "+m[1]+" "+m[2]+" -- true")
			if got.out != name {
				t.Errorf("%s makes %q of %s, not %q: %s", shell, got.out, m[2], name, got.err)
			}
		}
	}
}

func TestANumberAloneIsSeconds(t *testing.T) {
	t.Parallel()
	env := newTestEnv(t)
	env.hold("x")
	for wait, said := range map[string]string{"1": "waited 1s;", "0.25": "waited 250ms;", ".1": "waited 100ms;", "100ms": "waited 100ms;"} {
		if p := env.run("pawl", "run", "-w", wait, "x", "--", "true"); p.code != 75 || !strings.Contains(p.err, said) {
			t.Errorf("-w %s: %+v", wait, p)
		}
	}
	if p := env.run("pawl", "run", "-w", "0", "x", "--", "true"); p.code != 75 {
		t.Errorf("-w 0: %+v", p)
	}
	env.release("x")
	env.hold("y", "--ttl", "60", "--kill-after", "1.5")
	if all := env.list("inspect", "--json", "y"); len(all) != 1 || all[0]["left"].(float64) < 35 {
		t.Errorf("--ttl 60: %v", all)
	}
}

// Elections are shown as their users know them: by name, with the leader's value.
func TestElectionsAreShownByTheirNameAndLeader(t *testing.T) {
	t.Parallel()
	env := newTestEnv(t)
	long := strings.Repeat("l", 250)
	env.fifo("over")
	env.start("leads", "pawl", "elect", "scheduler", "10.0.0.7:80", "--", "sh", "-c", `exec 3<>over; echo leads >leads; read end <&3`)
	env.start("long", "pawl", "elect", long, "far", "--", "sh", "-c", `echo long >long; sleep 60`)
	env.start("stands", "pawl", "elect", "-q", "--events", env.path("stands"), "scheduler", "10.0.0.8:80", "--", "true")
	if !eventually(func() bool { return len(env.list("ls", "--json", "scheduler")) == 2 }) {
		t.Fatal("the candidate never stood in line")
	}
	for _, pattern := range []string{"scheduler", "sched*", "*uler", ".pawl/election/s", "*"} {
		if out := env.run("pawl", "ls", pattern).out; !regexp.MustCompile(`(?m)^scheduler +election +10\.0\.0\.7:80 +- +- .* 1 +\d+$`).MatchString(out) {
			t.Errorf("ls %s: %s", pattern, out)
		}
	}
	if out := env.run("pawl", "ls").out; !regexp.MustCompile(`(?m)^\.pawl/election-long/\w+ +election +far `).MatchString(out) {
		t.Errorf("ls: %s", out)
	}
	all := env.list("ls", "--json", "scheduler")
	if o := all[0]; o["name"] != ".pawl/election/scheduler" || o["election"] != "scheduler" || o["value"] != "10.0.0.7:80" || o["holder"] != nil || o["reason"] != nil {
		t.Errorf("ls --json: %v", o)
	}
	for _, name := range []string{"scheduler", ".pawl/election/scheduler"} {
		p := env.run("pawl", "inspect", name)
		for _, want := range []string{`^election scheduler in sqlite:`, `(?m)^held \(election\) by 10\.0\.0\.7:80 for `, `(?m)^waiting \(election\) by 10\.0\.0\.8:80 for `, `1st in line`} {
			if !regexp.MustCompile(want).MatchString(p.out) {
				t.Errorf("inspect %s does not show %s: %s", name, want, p.out)
			}
		}
		if all := env.list("inspect", "--json", name); len(all) != 2 || all[1]["value"] != "10.0.0.8:80" || all[1]["ahead"] != 1.0 {
			t.Errorf("inspect --json %s: %v", name, all)
		}
	}
	if p := env.run("pawl", "force-unlock", "scheduler"); p.code != 1 || !strings.Contains(p.err, "pawl force-unlock .pawl/election/scheduler") {
		t.Errorf("force-unlock of its name: %+v", p)
	}
	env.hold("scheduler") // a lock of the same name is something else
	p := env.run("pawl", "inspect", "scheduler")
	if !regexp.MustCompile(`(?s)^scheduler in sqlite:.*held \(exclusive\) by \S+@.*\nelection scheduler in sqlite:.*held \(election\) by 10\.0\.0\.7:80`).MatchString(p.out) {
		t.Errorf("inspect of both: %s", p.out)
	}
	watch := env.terminal(200, "pawl", "watch", "sched*")
	watch.shows(`taken   scheduler  \S+@\S+ pid`)
	watch.shows(`taken   election scheduler  10\.0\.0\.7:80`)
	watch.shows(`queued  election scheduler  10\.0\.0\.8:80`)
	env.signalFIFO("over")
	watch.shows(`left    election scheduler  10\.0\.0\.7:80`)
	watch.types(ctrlC)
	watch.ends(0)
}

// On Windows a typed line ends in \r\n.
func TestForceUnlockTakesALineThatEndsInCRLF(t *testing.T) {
	t.Parallel()
	env := newTestEnv(t)
	env.hold("x")
	x := env.terminal(200, "sh", "-c", "stty -icrnl; exec pawl force-unlock x")
	x.shows(`Type the lock's name to break it: `)
	x.types("x\r\n")
	x.ends(0)
	if !strings.Contains(x.shown(), "audit: ") {
		t.Errorf("%q", x.shown())
	}
	for line, want := range map[string]bool{"x\n": true, "x\r\n": true, "x": false, "x\r": false, "x \n": false, "X\n": false, "\n": false, "x\r\r\n": false, "x\n\n": false} {
		if confirms(line, "x") != want {
			t.Errorf("%q confirms: %v", line, !want)
		}
	}
}
