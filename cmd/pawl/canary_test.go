//go:build linux

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// canary is a password that must not be seen anywhere.
const canary = "c4n4ry"

// lookouts counts the places that were looked at.
type lookouts struct {
	t *testing.T
	n int
}

func (l *lookouts) look(place, text string) {
	l.t.Helper()
	l.n++
	if strings.Contains(text, canary) {
		l.t.Errorf("%s shows the password:\n%s", place, text)
	}
}

func (l *lookouts) play(place string, p play) {
	l.t.Helper()
	l.look(place+", stdout", p.out)
	l.look(place+", stderr", p.err)
}

// badURLs carry the canary where somebody may have put it, and lead nowhere.
var badURLs = []string{
	"nosql://ana:" + canary + "@host/db",
	"nosql://host/db?password=" + canary,
	"nosql:ana:" + canary + "@host",
	"ana:" + canary + "@host",
	canary + "@host:6379",
	"//ana:" + canary + "@host",
	"sqlite://ana:" + canary + "@host/locks.db",
	"sqlite://ana:" + canary + "@/no/such/folder/locks.db",
	"sqlite://ana:" + canary + "@:port/locks.db",
	"sqlite://ana:" + canary + "@host:99999999/locks.db",
	"sqlite://ana:" + canary + "%zz@/locks.db",
	"sqlite://ana:" + canary + "@/locks.db?%zz",
	"sqlite://ana:" + canary + "@/locks.db?ttl=soon",
	"sqlite://ana:" + canary + "@/locks.db?ttl=%zz",
	"sqlite://ana:" + canary + "@/locks.db?colour=red",
	"sqlite://ana:" + canary + "@[::1/locks.db",
	"sqlite:///locks.db?password=" + canary,
	"sqlite:///no/such/folder/locks.db?secret=" + canary,
	"sqlite:///no/such/folder/locks.db?api_key=" + canary + "&ttl=5s",
	"sqlite://ana:pass/" + canary + "@host/locks.db",
	"sqlite://ana:1/" + canary + "@host/locks.db",
	"sqlite://ana:1?" + canary + "@host/locks.db",
	"sqlite://ana:1#" + canary + "@host/locks.db",
	"sqlite://ana: " + canary + "@host/locks.db",
	"sqlite://ana:\x1b" + canary + "@host/locks.db",
	"mem://ana:" + canary + "@/",
	"mem:?password=" + canary,
	"local:?password=" + canary,
	"local://ana:" + canary + "@host",
}

func TestNoPasswordOfABrokenURLIsShown(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	l := &lookouts{t: t}
	for i, bad := range badURLs {
		p := s.with("PAWL_STORE="+bad).run("pawl", "run", "--events", s.path("events"), "x", "--", "env")
		if p.code == 0 {
			t.Errorf("%q was taken", bad)
		}
		l.play(fmt.Sprintf("run with URL %d", i), p)
		l.play(fmt.Sprintf("ls with -s and URL %d", i), s.run("pawl", "-s", bad, "ls", "--json"))
		file := fmt.Sprint("url-", i)
		s.write(file, bad+"\n")
		l.play(fmt.Sprintf("version -v with URL %d in a file", i), s.with("PAWL_STORE=", "PAWL_STORE_FILE="+s.path(file)).run("pawl", "version", "-v"))
	}
	l.look("events", s.read("events"))
	// A store's URL where none belongs.
	url := "redis://ana:" + canary + "@host"
	for _, args := range [][]string{{"-store", url, "ls"}, {url}, {"run", "-store", url, "x", "--", "true"}, {"ls", "-x", url}, {"ls", url, url}, {"run", "x", "-s" + url, "true"}, {"run", "x", "--store=" + url, "true"}} {
		l.play(fmt.Sprint("a mistake, ", args[0]), s.run("pawl", args...))
	}
	t.Logf("looked at %d places", l.n)
}

func TestNoPasswordOfAStoreInUseIsShown(t *testing.T) {
	t.Parallel()
	for _, way := range []string{"PAWL_STORE", "PAWL_STORE_FILE", "-s"} { // how the store is named
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			url := "sealed://ana:" + canary + "@" + s.path("locks.db") + "?ttl=40s&password=" + canary
			l := &lookouts{t: t}
			args := func(args ...string) []string { return args }
			switch way {
			case "PAWL_STORE":
				s = s.with("PAWL_STORE=" + url)
			case "PAWL_STORE_FILE":
				s.write("url", url)
				s = s.with("PAWL_STORE=", "PAWL_STORE_FILE="+s.path("url"))
			case "-s":
				s = s.with("PAWL_STORE=")
				args = func(args ...string) []string { return append([]string{"-s", url}, args...) }
			}
			watchTheHouse(l, s, way, args)
			t.Logf("looked at %d places", l.n)
			if l.n < 30 {
				t.Errorf("looked at %d places only", l.n)
			}
		})
	}
}

// watchTheHouse runs everything there is on a store that works.
func watchTheHouse(l *lookouts, s *stage, way string, args func(...string) []string) {
	t := s.t
	first := s.run("pawl", args("run", "-v", "--events", s.path("events"), "x", "--", "env")...)
	l.play("run", first)
	if first.code != 0 {
		t.Fatalf("the store does not work: %s", first.err)
	}
	if way == "-s" != strings.Contains(first.err, "warning: the password in -s shows in ps") {
		t.Errorf("the warning about ps: %q", first.err)
	}
	if way != "PAWL_STORE_FILE" && !strings.Contains(first.out, "PAWL_STORE=sealed://ana@"+s.path("locks.db")+"?ttl=40s\n") {
		t.Errorf("the command has no store to nest in:\n%s", first.out)
	}

	holder := s.begin("held", "pawl", args("run", "--events", s.path("events"), "--reason", "why", "x", "--", "sh", "-c",
		"tr '\\0' '\\n' </proc/self/environ >environ; echo $$ >pid; echo held >held; exec listener got go")...)
	s.await("got")
	l.look("the command's environ", s.read("environ"))
	pid := strings.TrimSpace(s.read("pid"))
	for _, file := range []string{"cmdline", "environ", "comm"} {
		l.look("the command's "+file, procText(t, pid, file))
	}
	own := strconv.Itoa(holder.Process.Pid)
	if way != "-s" {
		l.look("pawl's cmdline", procText(t, own, "cmdline"))
	}
	l.look("pawl's comm", procText(t, own, "comm"))

	for _, verb := range [][]string{
		{"ls"}, {"ls", "--json"}, {"inspect", "x"}, {"inspect", "--json", "x"}, {"version"}, {"version", "-v"},
		{"run", "-n", "x", "--", "true"}, {"run", "-w", "500ms", "x", "--", "true"}, {"run", "-n", "--events", s.path("events"), "x", "--", "true"},
		{"run", "", "--", "true"}, {"run", "-n", "--slots", "2", "x", "--", "true"}, {"run", "y", "--", "no-such-command"}, {"run", "y", "--bad"},
		{"force-unlock", "x"}, {"force-unlock", "--token", "512", "x"}, {"force-unlock", "nobody"},
		{"completion", "bash"}, {"--help"}, {"run", "--help"}, {"no-such-verb"}, {"__complete", "ls", ""},
	} {
		l.play(strings.Join(verb, " "), s.run("pawl", args(verb...)...))
	}
	watch := s.command("timeout", append([]string{"-s", "INT", "1", "pawl"}, args("watch", "--json")...)...)
	out, _ := watch.CombinedOutput()
	l.look("watch", string(out))

	l.play("force-unlock", s.run("pawl", args("force-unlock", "--token", tokenOf(t, s, args), "x")...))
	s.write("go", "")
	_ = holder.Wait()
	l.look("events", s.read("events"))
	files, err := filepath.Glob(s.path("locks.db*"))
	if err != nil || len(files) == 0 {
		t.Fatal("no store", err)
	}
	for _, file := range files {
		if b, err := os.ReadFile(file); err == nil {
			l.look("the store's "+filepath.Base(file), string(b))
		}
	}
}

func procText(t *testing.T, pid, file string) string {
	t.Helper()
	b, err := os.ReadFile("/proc/" + pid + "/" + file)
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(string(b), "\x00", "\n")
}

func tokenOf(t *testing.T, s *stage, args func(...string) []string) string {
	t.Helper()
	p := s.run("pawl", args("inspect", "x")...)
	_, after, ok := strings.Cut(p.out, "token   ")
	if !ok {
		t.Fatalf("no token: %q", p.out)
	}
	token, _, _ := strings.Cut(after, "\n")
	return token
}
