//go:build linux

package main

import (
	"net/http/httputil"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/pawl-go/pawl/internal/passwordleak"
)

func TestNoPasswordOfAStoreInUseIsShown(t *testing.T) {
	t.Parallel()
	for _, way := range []string{"PAWL_STORE", "PAWL_STORE_FILE", "-s"} { // how the store is given
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			env := newTestEnv(t)
			url := "sealed://ana:" + passwordleak.Password + "@" + env.path("locks.db") + "?ttl=40s&password=" + passwordleak.Password
			check := &leakCheck{t: t}
			args := func(args ...string) []string { return args }
			switch way {
			case "PAWL_STORE":
				env = env.with("PAWL_STORE=" + url)
			case "PAWL_STORE_FILE":
				env.write("url", url)
				env = env.with("PAWL_STORE=", "PAWL_STORE_FILE="+env.path("url"))
			case "-s":
				env = env.with("PAWL_STORE=")
				args = func(args ...string) []string { return append([]string{"-s", url}, args...) }
			}
			checkAllOutputs(check, env, way, args)
			t.Logf("looked at %d places", check.n)
			if check.n < 30 {
				t.Errorf("looked at %d places only", check.n)
			}
		})
	}
}

// checkAllOutputs runs every verb on a working store.
func checkAllOutputs(check *leakCheck, env *testEnv, way string, args func(...string) []string) {
	t := env.t
	first := env.run("pawl", args("run", "-v", "--events", env.path("events"), "x", "--", "env")...)
	check.checkResult("run", first)
	if first.code != 0 {
		t.Fatalf("the store does not work: %s", first.err)
	}
	if way == "-s" != strings.Contains(first.err, "warning: the password in -s shows in ps") {
		t.Errorf("the warning about ps: %q", first.err)
	}
	if way != "PAWL_STORE_FILE" && !strings.Contains(first.out, "PAWL_STORE=sealed://ana@"+env.path("locks.db")+"?ttl=40s\n") {
		t.Errorf("the command has no store to nest in:\n%s", first.out)
	}

	holder := env.start("held", "pawl", args("run", "--events", env.path("events"), "--reason", "why", "x", "--", "sh", "-c",
		"tr '\\0' '\\n' </proc/self/environ >environ; echo $$ >pid; echo held >held; exec listener got go")...)
	env.await("got")
	check.checkText("the command's environ", env.read("environ"))
	pid := strings.TrimSpace(env.read("pid"))
	for _, file := range []string{"cmdline", "environ", "comm"} {
		check.checkText("the command's "+file, procText(t, pid, file))
	}
	own := strconv.Itoa(holder.Process.Pid)
	if way != "-s" {
		check.checkText("pawl's cmdline", procText(t, own, "cmdline"))
	}
	check.checkText("pawl's comm", procText(t, own, "comm"))

	for _, verb := range [][]string{
		{"ls"}, {"ls", "--json"}, {"inspect", "x"}, {"inspect", "--json", "x"}, {"version"}, {"version", "-v"},
		{"run", "-n", "x", "--", "true"}, {"run", "-w", "500ms", "x", "--", "true"}, {"run", "-n", "--events", env.path("events"), "x", "--", "true"},
		{"run", "", "--", "true"}, {"run", "-n", "--slots", "2", "x", "--", "true"}, {"run", "y", "--", "no-such-command"}, {"run", "y", "--bad"},
		{"force-unlock", "x"}, {"force-unlock", "--token", "512", "x"}, {"force-unlock", "nobody"},
		{"completion", "bash"}, {"--help"}, {"run", "--help"}, {"no-such-verb"}, {"__complete", "ls", ""},
	} {
		check.checkResult(strings.Join(verb, " "), env.run("pawl", args(verb...)...))
	}
	watch := env.command("timeout", append([]string{"-s", "INT", "1", "pawl"}, args("watch", "--json")...)...)
	out, _ := watch.CombinedOutput()
	check.checkText("watch", string(out))

	checkServe(check, env, args)
	check.checkResult("force-unlock", env.run("pawl", args("force-unlock", "--token", tokenOf(t, env, args), "x")...))
	env.write("go", "")
	_ = holder.Wait()
	check.checkText("events", env.read("events"))
	files, err := filepath.Glob(env.path("locks.db*"))
	if err != nil || len(files) == 0 {
		t.Fatal("no store", err)
	}
	for _, file := range files {
		if b, err := os.ReadFile(file); err == nil {
			check.checkText("the store's "+filepath.Base(file), string(b))
		}
	}
}

// checkServe looks at all that serve says, with its store and without.
func checkServe(check *leakCheck, env *testEnv, args func(...string) []string) {
	look := func(s *served) {
		for _, path := range []string{"/", "/tree", "/name?name=x", "/holder?session=x", "/metrics", "/api/v1/locks", "/healthz", "/nothing"} {
			resp, err := s.client.Get(s.url + path)
			if err != nil {
				env.t.Fatal(err)
			}
			text, err := httputil.DumpResponse(resp, true)
			if err != nil {
				env.t.Fatal(err)
			}
			resp.Body.Close()
			check.checkText("serve "+path, string(text))
		}
	}
	s := env.serveWith(args("serve", "--listen", "127.0.0.1:0"))
	s.until("/", `data-name="x"`)
	look(s)
	aside := env.path("aside")
	if err := os.Mkdir(aside, 0o700); err != nil {
		env.t.Fatal(err)
	}
	gone := env.serveWith(args("-s", "sealed://ana:"+passwordleak.Password+"@"+aside+"?password="+passwordleak.Password, "serve", "--listen", "127.0.0.1:0"))
	gone.until("/", `data-state="away"`)
	look(gone)
	check.checkText("serve's stderr", s.stderr()+gone.stderr())
	_ = s.cmd.Process.Kill()
	_ = gone.cmd.Process.Kill()
}

func procText(t *testing.T, pid, file string) string {
	t.Helper()
	b, err := os.ReadFile("/proc/" + pid + "/" + file)
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(string(b), "\x00", "\n")
}

func tokenOf(t *testing.T, env *testEnv, args func(...string) []string) string {
	t.Helper()
	p := env.run("pawl", args("inspect", "x")...)
	_, after, ok := strings.Cut(p.out, "token   ")
	if !ok {
		t.Fatalf("no token: %q", p.out)
	}
	token, _, _ := strings.Cut(after, "\n")
	return token
}
