//go:build linux

package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/canary"
)

// lookouts counts the places that were looked at.
type lookouts struct {
	t *testing.T
	n int
}

func (l *lookouts) look(place, text string) {
	l.t.Helper()
	l.n++
	if found := canary.In(text); found != "" {
		l.t.Errorf("%s shows the password, %s:\n%s", place, found, text)
	}
}

func (l *lookouts) play(place string, p play) {
	l.t.Helper()
	l.look(place+", stdout", p.out)
	l.look(place+", stderr", p.err)
}

// badURLs are those that a store of one file and one of none have besides.
var badURLs = []string{
	"sqlite://ana:" + canary.Password + "@/no/such/folder/locks.db",
	"sqlite://ana:" + canary.Password + "@/locks.db?ttl=soon",
	"sqlite:///locks.db?password=" + canary.Password,
	"sqlite:///no/such/folder/locks.db?secret=" + canary.Password,
	"sqlite:///no/such/folder/locks.db?api_key=" + canary.Password + "&ttl=5s",
	"sqlite:///C:/ana:" + canary.Password + "@host/locks.db",
	"mem://ana:" + canary.Password + "@/",
	"mem:?password=" + canary.Password,
	"local:?password=" + canary.Password,
	"local:" + canary.Password,
	"local:/" + canary.Password,
	"local://ana:" + canary.Password + "@host",
}

func TestNoPasswordOfABrokenURLIsShown(t *testing.T) {
	t.Parallel()
	s := newStage(t).with(contactEnv + "=1s")
	l := &lookouts{t: t}
	schemes, all := driver.Schemes(), badURLs
	for i := 0; i < len(canary.URLs("")); i += 5 { // some shapes, each with another scheme; all with all are below
		all = append(all, canary.URLs(schemes[i%len(schemes)])[i])
	}
	for i, bad := range all {
		if u, err := driver.ParseURL(bad); err == nil && (u.Scheme == "sqlite" && u.RawQuery == "" || strings.HasPrefix(u.Scheme, "etcd")) {
			continue // a file, whose path is shown, or a client that waits long for nobody: below they wait together
		}
		var p play
		switch i % 3 {
		case 0:
			p = s.with("PAWL_STORE="+bad).run("pawl", "run", "--events", s.path("events"), "x", "--", "env")
		case 1:
			p = s.run("pawl", "-s", "mem:", "ls", "--json", "-s", bad)
		case 2:
			s.write("url", bad+"\n")
			p = s.with("PAWL_STORE=", "PAWL_STORE_FILE="+s.path("url")).run("pawl", "inspect", "x")
		}
		if p.code == 0 && i%3 == 0 {
			t.Errorf("%q was taken", bad)
		}
		l.play(fmt.Sprintf("with %q", bad), p)
	}
	l.look("events", s.read("events"))
	t.Logf("looked at %d places", l.n)
}

// stray are URLs for wrong places.
var stray = []string{
	"redis://ana:" + canary.Password + "@host", "redis:/ana:" + canary.Password + "@host", "redis:ana:" + canary.Password + "@host", "ana:" + canary.Password + "@tcp(h)/db",
	"redis://ana:" + canary.Second + " " + canary.Password + "@host", "redis://ana:1/" + canary.Password + "@host", "host=h password=" + canary.Password, "redis://h?password=" + canary.Password,
}

// wrongPlaces are command lines with a URL where none belongs: after a flag that there
// is not, as a command, as an argument, as a program.
func wrongPlaces(url string) [][]string {
	return [][]string{
		{"-store", url, "ls"}, {"--stores=" + url, "ls"}, {"--store:" + url, "ls"}, {url}, {"help", url}, {"run", "-store", url, "x", "--", "true"}, {"ls", "-x", url}, {"ls", "-x" + url},
		{"ls", url, url}, {"migrate", url}, {"run", "x", "-s" + url, "true"}, {"run", "x", "--store=" + url, "true"}, {"run", "-w", url, "x", "--", "true"}, {"run", "x", url},
		{"run", "--on-lost", url, "x", "true"}, {"run", "--events", "no/such/" + url, "x", "true"}, {"completion", url},
	}
}

// Each place with one of the URLs as a program, and all with all in one process.
func TestNoPasswordThatWasTypedInAWrongPlaceIsShown(t *testing.T) {
	l := &lookouts{t: t}
	if !alone() {
		t.Parallel()
		s := newStage(t)
		for i := range wrongPlaces("") {
			args := wrongPlaces(stray[i%len(stray)])[i]
			l.play(fmt.Sprintf("%q", args), s.run("pawl", args...))
		}
		l.play("PAWL_STORE_FILE", s.with("PAWL_STORE=", "PAWL_STORE_FILE="+stray[0]).run("pawl", "ls"))
		l.inOwnProcess(s)
		return
	}
	try := func(args ...string) {
		var out, errs bytes.Buffer
		code := run(args, strings.NewReader(""), &out, &errs)
		l.play(fmt.Sprintf("%q", args), play{out.String(), errs.String(), code})
		if code == 0 {
			t.Errorf("%q was taken", args)
		}
	}
	for _, url := range stray {
		for _, args := range wrongPlaces(url) {
			try(args...)
		}
		store := os.Getenv("PAWL_STORE")
		t.Setenv("PAWL_STORE", "")
		t.Setenv("PAWL_STORE_FILE", url)
		try("ls")
		t.Setenv("PAWL_STORE", store)
		t.Setenv("PAWL_STORE_FILE", "")
	}
	t.Logf("looked at %d places", l.n)
}

// aloneEnv is set in a process that was started for one test.
const aloneEnv = "PAWL_TEST_ALONE"

func alone() bool { return os.Getenv(aloneEnv) != "" }

// inOwnProcess runs the test once more, in a process in which it is alone: there it may
// change the environment, and what a client writes to stderr by itself is seen.
func (l *lookouts) inOwnProcess(s *stage) {
	l.t.Helper()
	program, err := os.Executable()
	if err != nil {
		l.t.Fatal(err)
	}
	cmd := exec.CommandContext(l.t.Context(), program, "-test.run=^"+l.t.Name()+"$", "-test.v", "-test.timeout=9m")
	cmd.Dir, cmd.Env = s.dir, append(s.env[:len(s.env):len(s.env)], aloneEnv+"=1", "TMPDIR="+s.dir)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil || !strings.Contains(out.String(), "--- PASS: "+l.t.Name()) {
		l.t.Errorf("in a process of its own: %v\n%s%s", err, out.String(), errs.String())
	}
	l.look("what clients write by themselves", errs.String())
}

// Every shape with every scheme, in one process: a program for each would take minutes.
// Those that are URLs at all are connected to, at once. A shape comes in each of the ways
// to name a store, with one scheme or another.
func TestNoPasswordOfAURLIsShownWhateverItsScheme(t *testing.T) {
	if !alone() {
		t.Parallel()
		(&lookouts{t: t}).inOwnProcess(newStage(t))
		return
	}
	dir := t.TempDir()
	t.Chdir(dir)
	t.Setenv("PAWL_STORE", "")
	t.Setenv("PAWL_STORE_FILE", "")
	before := firstContact
	firstContact = time.Second
	t.Cleanup(func() { firstContact = before })
	var mu sync.Mutex // guards l
	l := &lookouts{t: t}
	try := func(store string, args ...string) {
		var out, errs bytes.Buffer
		code := run(args, strings.NewReader(""), &out, &errs)
		mu.Lock()
		defer mu.Unlock()
		l.play(fmt.Sprintf("%q with %q", args, store), play{out.String(), errs.String(), code})
		if strings.Count(errs.String(), "\n") > 2 { // a warning and an error
			t.Errorf("%q with %q is told in several lines:\n%s", args, store, errs.String())
		}
	}
	var tasks sync.WaitGroup
	defer func() { // before firstContact is what it was
		tasks.Wait()
		t.Logf("looked at %d places", l.n)
	}()
	events, file, places := filepath.Join(dir, "events"), filepath.Join(dir, "url"), make(chan struct{}, 64)
	for n, scheme := range append(driver.Schemes(), "nosql") {
		for i, store := range canary.URLs(scheme) {
			u, err := driver.ParseURL(store)
			switch {
			case err == nil && (u.Scheme == "sqlite" || u.Scheme == "mem"): // a file, whose path is shown, or one that opens
			case err == nil:
				places <- struct{}{}
				tasks.Go(func() {
					defer func() { <-places }()
					verbs := [][]string{{"inspect", "--json", "x"}, {"migrate"}, {"once", "--forget", "x"}, {"ls"}}
					try(store, append([]string{"-s", store}, verbs[i%len(verbs)]...)...)
				})
				if (n+i)%3 == 0 {
					try(store, "-s", store, "version", "-v")
				}
			case (n+i)%3 == 0:
				try(store, "-s", store, "ls")
			case (n+i)%3 == 1:
				t.Setenv("PAWL_STORE", store)
				try(store, "run", "-n", "--events", events, "x", "--", "true")
				t.Setenv("PAWL_STORE", "")
			default:
				if err := os.WriteFile(file, []byte(store), 0o600); err != nil {
					t.Fatal(err)
				}
				t.Setenv("PAWL_STORE_FILE", file)
				try(store, "version", "-v")
				t.Setenv("PAWL_STORE_FILE", "")
			}
		}
	}
}

func TestNoPasswordOfAStoreInUseIsShown(t *testing.T) {
	t.Parallel()
	for _, way := range []string{"PAWL_STORE", "PAWL_STORE_FILE", "-s"} { // how the store is named
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			url := "sealed://ana:" + canary.Password + "@" + s.path("locks.db") + "?ttl=40s&password=" + canary.Password
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
