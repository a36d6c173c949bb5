//go:build linux

package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/passwordleak"
)

// leakCheck counts the checked outputs.
type leakCheck struct {
	t *testing.T
	n int
}

func (check *leakCheck) checkText(place, text string) {
	check.t.Helper()
	check.n++
	if found := passwordleak.Find(text); found != "" {
		check.t.Errorf("%s shows the password, %s:\n%s", place, found, text)
	}
}

func (check *leakCheck) checkResult(place string, p commandResult) {
	check.t.Helper()
	check.checkText(place+", stdout", p.out)
	check.checkText(place+", stderr", p.err)
}

// badURLs are further invalid URLs, for local: and mem:.
var badURLs = []string{
	"sqlite://ana:" + passwordleak.Password + "@/no/such/folder/locks.db",
	"sqlite://ana:" + passwordleak.Password + "@/locks.db?ttl=soon",
	"sqlite:///locks.db?password=" + passwordleak.Password,
	"sqlite:///no/such/folder/locks.db?secret=" + passwordleak.Password,
	"sqlite:///no/such/folder/locks.db?api_key=" + passwordleak.Password + "&ttl=5s",
	"sqlite:///C:/ana:" + passwordleak.Password + "@host/locks.db",
	"mem://ana:" + passwordleak.Password + "@/",
	"mem:?password=" + passwordleak.Password,
	"local:?password=" + passwordleak.Password,
	"local:" + passwordleak.Password,
	"local:/" + passwordleak.Password,
	"local://ana:" + passwordleak.Password + "@host",
}

func TestNoPasswordOfABrokenURLIsShown(t *testing.T) {
	t.Parallel()
	env := newTestEnv(t).with(contactEnv + "=1s")
	check := &leakCheck{t: t}
	schemes, all := driver.Schemes(), badURLs
	for i := 0; i < len(passwordleak.URLs("")); i += 5 { // some URLs, each with another scheme; all combinations follow below
		all = append(all, passwordleak.URLs(schemes[i%len(schemes)])[i])
	}
	for i, bad := range all {
		if u, err := driver.ParseURL(bad); err == nil && (u.Scheme == "sqlite" && u.RawQuery == "" || strings.HasPrefix(u.Scheme, "etcd")) {
			continue // a file, whose path is shown, or a client with a long timeout, tested concurrently below
		}
		var p commandResult
		switch i % 3 {
		case 0:
			p = env.with("PAWL_STORE="+bad).run("pawl", "run", "--events", env.path("events"), "x", "--", "env")
		case 1:
			p = env.run("pawl", "-s", "mem:", "ls", "--json", "-s", bad)
		case 2:
			env.write("url", bad+"\n")
			p = env.with("PAWL_STORE=", "PAWL_STORE_FILE="+env.path("url")).run("pawl", "inspect", "x")
		}
		if p.code == 0 && i%3 == 0 {
			t.Errorf("%q was taken", bad)
		}
		check.checkResult(fmt.Sprintf("with %q", bad), p)
	}
	check.checkText("events", env.read("events"))
	t.Logf("looked at %d places", check.n)
}

// strayArguments are URLs for the wrong places.
var strayArguments = []string{
	"redis://ana:" + passwordleak.Password + "@host", "redis:/ana:" + passwordleak.Password + "@host", "redis:ana:" + passwordleak.Password + "@host", "ana:" + passwordleak.Password + "@tcp(h)/db",
	"redis://ana:" + passwordleak.Second + " " + passwordleak.Password + "@host", "redis://ana:1/" + passwordleak.Password + "@host", "host=h password=" + passwordleak.Password, "redis://h?password=" + passwordleak.Password,
}

// wrongPlaces returns command lines with a URL where none belongs: after an unknown
// flag, as a verb, as an argument, as a program.
func wrongPlaces(url string) [][]string {
	return [][]string{
		{"-store", url, "ls"}, {"--stores=" + url, "ls"}, {"--store:" + url, "ls"}, {url}, {"help", url}, {"run", "-store", url, "x", "--", "true"}, {"ls", "-x", url}, {"ls", "-x" + url},
		{"ls", url, url}, {"migrate", url}, {"run", "x", "-s" + url, "true"}, {"run", "x", "--store=" + url, "true"}, {"run", "-w", url, "x", "--", "true"}, {"run", "x", url},
		{"run", "--on-lost", url, "x", "true"}, {"run", "--events", "no/such/" + url, "x", "true"}, {"completion", url},
	}
}

// Each place with one URL in a process of its own, and all combinations in one
// process.
func TestNoPasswordThatWasTypedInAWrongPlaceIsShown(t *testing.T) {
	check := &leakCheck{t: t}
	if !inChildProcess() {
		t.Parallel()
		env := newTestEnv(t)
		for i := range wrongPlaces("") {
			args := wrongPlaces(strayArguments[i%len(strayArguments)])[i]
			check.checkResult(fmt.Sprintf("%q", args), env.run("pawl", args...))
		}
		check.checkResult("PAWL_STORE_FILE", env.with("PAWL_STORE=", "PAWL_STORE_FILE="+strayArguments[0]).run("pawl", "ls"))
		check.inOwnProcess(env)
		return
	}
	try := func(args ...string) {
		var out, errs bytes.Buffer
		code := run(args, strings.NewReader(""), &out, &errs)
		check.checkResult(fmt.Sprintf("%q", args), commandResult{out.String(), errs.String(), code})
		if code == 0 {
			t.Errorf("%q was taken", args)
		}
	}
	for _, url := range strayArguments {
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
	t.Logf("looked at %d places", check.n)
}

// childProcessEnv is set in a process that was started for one test.
const childProcessEnv = "PAWL_TEST_ALONE"

func inChildProcess() bool { return os.Getenv(childProcessEnv) != "" }

// inOwnProcess runs the test again in a process of its own, in which it can change
// the environment and in which everything that a client library writes to stderr is
// captured.
func (check *leakCheck) inOwnProcess(env *testEnv) {
	check.t.Helper()
	program, err := os.Executable()
	if err != nil {
		check.t.Fatal(err)
	}
	cmd := exec.CommandContext(check.t.Context(), program, "-test.run=^"+check.t.Name()+"$", "-test.v", "-test.timeout=9m")
	cmd.Dir, cmd.Env = env.dir, append(env.env[:len(env.env):len(env.env)], childProcessEnv+"=1", "TMPDIR="+env.dir)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil || !strings.Contains(out.String(), "--- PASS: "+check.t.Name()) {
		check.t.Errorf("in a process of its own: %v\n%s%s", err, out.String(), errs.String())
	}
	check.checkText("what clients write by themselves", errs.String())
}

// Every URL with every scheme, in one process: a process for each would take
// minutes. Valid URLs are connected to, all at once. Each URL is passed in every
// way to name a store, with one scheme or another.
func TestNoPasswordOfAURLIsShownWhateverItsScheme(t *testing.T) {
	if !inChildProcess() {
		t.Parallel()
		(&leakCheck{t: t}).inOwnProcess(newTestEnv(t))
		return
	}
	dir := t.TempDir()
	t.Chdir(dir)
	t.Setenv("PAWL_STORE", "")
	t.Setenv("PAWL_STORE_FILE", "")
	before := firstContact
	firstContact = time.Second
	t.Cleanup(func() { firstContact = before })
	var mu sync.Mutex // guards check
	check := &leakCheck{t: t}
	try := func(store string, args ...string) {
		var out, errs bytes.Buffer
		code := run(args, strings.NewReader(""), &out, &errs)
		mu.Lock()
		defer mu.Unlock()
		check.checkResult(fmt.Sprintf("%q with %q", args, store), commandResult{out.String(), errs.String(), code})
		if strings.Count(errs.String(), "\n") > 2 { // a warning and an error
			t.Errorf("%q with %q is told in several lines:\n%s", args, store, errs.String())
		}
	}
	var tasks sync.WaitGroup
	defer func() { // before firstContact is restored
		tasks.Wait()
		t.Logf("looked at %d places", check.n)
	}()
	events, file, places := filepath.Join(dir, "events"), filepath.Join(dir, "url"), make(chan struct{}, 64)
	for n, scheme := range append(driver.Schemes(), "nosql") {
		for i, store := range passwordleak.URLs(scheme) {
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
