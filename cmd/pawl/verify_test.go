//go:build linux

package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pawl-go/pawl/internal/history"
	"github.com/pawl-go/pawl/internal/testserver"
	"github.com/pawl-go/pawl/internal/teststores"
)

// verified runs pawl verify --json and returns what it prints.
func (env *testEnv) verified(code int, args ...string) (j verifyJSON) {
	env.t.Helper()
	p := env.run("pawl", append([]string{"verify", "--json"}, args...)...)
	if p.code != code || p.err != "" {
		env.t.Fatalf("verify exits with %d, not %d: %s%s", p.code, code, p.out, p.err)
	}
	if err := json.Unmarshal([]byte(p.out), &j); err != nil {
		env.t.Fatal(err)
	}
	return j
}

var versionNumber = regexp.MustCompile(`^\d+\.\d+(\.\d+)*$`)

// TestVerifyOnEveryStore runs verify with all faults, one store after the other: it is a
// load of its own.
func TestVerifyOnEveryStore(t *testing.T) {
	for _, s := range teststores.All() {
		if s.Name == "MySQL" && os.Getenv("PAWL_SOAK") == "" {
			continue // it has MariaDB's protocol, and takes long to start
		}
		t.Run(s.Name, func(t *testing.T) {
			url, version := s.Start(t)
			if !versionNumber.MatchString(version) {
				t.Errorf("version %q", version)
			}
			env := newTestEnv(t).with("PAWL_STORE=" + url)
			j := env.verified(0, "--for", "5s")
			if !j.Kept || j.Counts.Grants == 0 || j.Counts.FaultsInAll == 0 || len(j.Promises) < 8 || len(j.Violations) > 0 {
				t.Errorf("%+v", j)
			}
			if all := env.list("ls", "--json"); len(all) > 0 {
				t.Errorf("it has left %v", all)
			}
			t.Logf("%d operations, %v", j.Counts.Operations, j.Counts.Faults)
		})
	}
}

// A failover to a replica that has nothing is what docs/redis.md warns of.
func TestVerifyFindsAFailoverToAnEmptyReplica(t *testing.T) {
	s := testserver.RedisSentinel(t, "--replica-read-only", "no", "--replica-priority", "100")
	env := newTestEnv(t).with("PAWL_STORE=redis-sentinel://" + strings.Join(s.Addrs(), ",") + "/" + testserver.SentinelName)
	report := env.path("report.html")
	cmd := env.command("pawl", "verify", "--for", "20s", "--faults", "none", "--report", report)
	var said strings.Builder
	cmd.Stdout, cmd.Stderr = &said, &said
	ended := env.startAndWait(cmd)
	master := s.Nodes[0]
	for range 4 {
		time.Sleep(2 * time.Second) // the workers hold locks meanwhile
		for _, n := range s.Nodes {
			if n != master {
				redisDo(t, n.Addr(), "FLUSHALL")
			}
		}
		redisDo(t, s.Sentinels[0].Addr(), "SENTINEL", "FAILOVER", testserver.SentinelName)
		master = s.AwaitMaster(master)
	}
	checkExit(t, ended, 1)
	for _, want := range []string{"BROKEN", "one holder at a time", "gravest violation", "not promised in this store: one holder at a time across data loss, a failover", "docs/redis.md"} {
		if !strings.Contains(said.String(), want) {
			t.Errorf("%q is missing:\n%s", want, said.String())
		}
	}
	if page, err := os.ReadFile(report); err != nil || !strings.Contains(string(page), "one holder at a time") {
		t.Errorf("the report: %d bytes, %v", len(page), err)
	}
}

// Most holds last for moments: who deletes the key of one rarely lets two hold at a time, and
// the store has forgotten a claim all the same.
func TestVerifyFindsKeysThatAreDeleted(t *testing.T) {
	t.Parallel()
	redis := testserver.Redis(t)
	env := newTestEnv(t).with("PAWL_STORE=redis://" + redis.Addr())
	cmd := env.command("pawl", "verify", "--json", "--for", "8s", "--faults", "none")
	var out strings.Builder
	cmd.Stdout = &out
	ended := env.startAndWait(cmd)
	deleted, every := 0, time.NewTicker(300*time.Millisecond)
	defer every.Stop()
	for code := -1; code < 0; {
		select {
		case code = <-ended:
			if code != exitViolated {
				t.Errorf("exit %d after %d keys were deleted: %s", code, deleted, out.String())
			}
		case <-every.C:
			key, err := exec.Command("redis-cli", "-p", strconv.Itoa(redis.Port()), "RANDOMKEY").Output()
			if name := strings.TrimSuffix(string(key), "\n"); err == nil && name != "" {
				redisDo(t, redis.Addr(), "DEL", name)
				deleted++
			}
		}
	}
	var j verifyJSON
	if err := json.Unmarshal([]byte(out.String()), &j); err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(j.Promises, func(p promiseJSON) bool { return p.Promise == history.Kept && !p.Kept }) {
		t.Errorf("%d keys were deleted: %+v", deleted, j.Promises)
	}
}

func TestVerifyThatIsInterruptedLeavesNothing(t *testing.T) {
	t.Parallel()
	env := newTestEnv(t)
	cmd := env.command("pawl", "verify", "--for", "1m", "--faults", "pause", "--report", env.path("report.html"))
	var said strings.Builder
	cmd.Stdout, cmd.Stderr = &said, &said
	ended := env.startAndWait(cmd)
	workers := env.workersOf(cmd.Process.Pid, 4)
	if !eventually(func() bool { return len(env.list("ls", "--json")) > 0 }) {
		t.Fatal("nothing is held")
	}
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	checkExit(t, ended, 130)
	if said.String() != "" {
		t.Errorf("said: %s", said.String())
	}
	if !gone(workers) {
		t.Error("workers are left")
	}
	if all := env.list("ls", "--json"); len(all) > 0 {
		t.Errorf("left in the store: %v", all)
	}
	if files, _ := filepath.Glob(env.path(".pawl-verify-*")); len(files) > 0 {
		t.Errorf("left in the folder: %v", files)
	}
}

// Workers end with verify, also those that are stopped.
func TestVerifyThatIsKilledLeavesNoWorkers(t *testing.T) {
	t.Parallel()
	env := newTestEnv(t)
	cmd := env.command("pawl", "verify", "--for", "1m", "--faults", "none")
	ended := env.startAndWait(cmd)
	workers := env.workersOf(cmd.Process.Pid, 4)
	if err := syscall.Kill(workers[0], syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-ended
	if !eventually(func() bool { return gone(workers) }) {
		t.Error("workers are left")
	}
}

func TestVerifyThatIsKilledInALongHoldLeavesNoWorkers(t *testing.T) {
	t.Parallel()
	env := newTestEnv(t)
	cmd := env.command("pawl", "verify", "--for", "1m", "--faults", "none", "--ttl", "10s")
	ended := env.startAndWait(cmd)
	workers := env.workersOf(cmd.Process.Pid, 4)
	time.Sleep(3 * time.Second) // by now one holds what it has, for longer than the TTL
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-ended
	if !eventually(func() bool { return gone(workers) }) {
		t.Error("workers are left")
	}
}

// workersOf waits for the workers of a process.
func (env *testEnv) workersOf(pid, n int) (workers []int) {
	env.t.Helper()
	if !eventually(func() bool {
		workers = descendantsOf(pid, nil)
		return len(workers) >= n
	}) {
		env.t.Fatalf("there are the workers %v", workers)
	}
	return workers
}

func gone(pids []int) bool {
	return !slices.ContainsFunc(pids, func(pid int) bool { return syscall.Kill(pid, 0) == nil })
}

func TestVerifySaysInOneLineWhyItCannotRun(t *testing.T) {
	t.Parallel()
	redis := testserver.Redis(t)
	redisDo(t, redis.Addr(), "ACL", "SETUSER", "reader", "on", ">hunter2", "~*", "&*", "+@read", "+@connection")
	env := newTestEnv(t)
	for what, test := range map[string]struct {
		store string
		args  []string
		want  string
	}{
		"away":        {"redis://:hunter2@127.0.0.1:1", nil, "store redis://127.0.0.1:1: "},
		"no rights":   {"redis://reader:hunter2@" + redis.Addr(), nil, "store redis://" + redis.Addr() + ": "},
		"no folder":   {"redis://" + redis.Addr(), []string{"--report", "no/such/folder.html"}, "--report no/such/folder.html: "},
		"wrong URL":   {"redis://" + redis.Addr() + "?nosuch=1", nil, "nosuch"},
		"no database": {"postgres://127.0.0.1:1/x?sslmode=disable", nil, "store postgres://127.0.0.1:1"},
	} {
		t.Run(what, func(t *testing.T) {
			p := env.with("PAWL_STORE="+test.store, "PAWL_TEST_CONTACT=3s").run("pawl", append([]string{"verify", "--for", "1s"}, test.args...)...)
			if p.code != 2 || p.out != "" || strings.Count(p.err, "\n") != 1 || !strings.HasPrefix(p.err, "pawl: ") || !strings.Contains(p.err, test.want) || strings.Contains(p.err, "hunter2") {
				t.Errorf("exit %d: %s%s", p.code, p.out, p.err)
			}
		})
	}
}

// A report replaces a regular file, and nothing else.
func TestVerifyWritesItsReportOnlyToARegularFile(t *testing.T) {
	t.Parallel()
	env := newTestEnv(t)
	if err := os.Mkdir(env.path("folder"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(env.path("pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"folder", "pipe"} {
		p := env.run("pawl", "verify", "--for", "10s", "--report", env.path(name))
		if p.code != 2 || p.out != "" || !strings.Contains(p.err, "not a regular file") || strings.Count(p.err, "\n") != 1 {
			t.Errorf("%s: exit %d: %s%s", name, p.code, p.out, p.err)
		}
	}
	if err := os.WriteFile(env.path("folder/page.html"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("folder/page.html", env.path("link")); err != nil {
		t.Fatal(err)
	}
	env.verified(0, "--for", "1s", "--workers", "2", "--faults", "none", "--report", env.path("link"))
	if to, err := os.Readlink(env.path("link")); err != nil || to != "folder/page.html" {
		t.Errorf("the link leads to %q: %v", to, err)
	}
	if page, err := os.ReadFile(env.path("folder/page.html")); err != nil || !strings.Contains(string(page), "one holder at a time") {
		t.Errorf("the report: %d bytes, %v", len(page), err)
	}
}

func TestVerifyShowsItsVerdictIfTheReportCannotBeWritten(t *testing.T) {
	t.Parallel()
	env := newTestEnv(t)
	folder := env.path("folder")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := env.command("pawl", "verify", "--for", "2s", "--workers", "2", "--faults", "none", "--report", filepath.Join(folder, "report.html"))
	var out, said strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &said
	ended := env.startAndWait(cmd)
	env.workersOf(cmd.Process.Pid, 2)
	if err := os.RemoveAll(folder); err != nil {
		t.Fatal(err)
	}
	checkExit(t, ended, 2)
	if !strings.Contains(out.String(), "one holder at a time") || !strings.HasPrefix(said.String(), "pawl: --report ") || strings.Count(said.String(), "\n") != 1 {
		t.Errorf("%s%s", out.String(), said.String())
	}
}

func TestVerifyRefusesAPrefixInUse(t *testing.T) {
	t.Parallel()
	env := newTestEnv(t)
	env.hold("app-orders")
	p := env.run("pawl", "verify", "--for", "1s", "--prefix", "app-")
	if p.code != 2 || !strings.Contains(p.err, "the prefix is in use: app-orders") || strings.Count(p.err, "\n") != 1 {
		t.Errorf("exit %d: %s%s", p.code, p.out, p.err)
	}
	if len(env.list("ls", "--json")) != 1 {
		t.Error("the holder is gone")
	}
}

func TestVerifyRefusesThePrefixOfAnotherRun(t *testing.T) {
	t.Parallel()
	env := newTestEnv(t)
	first := env.command("pawl", "verify", "--for", "1m", "--prefix", "mine/")
	ended := env.startAndWait(first)
	env.workersOf(first.Process.Pid, 4)
	p := env.run("pawl", "verify", "--for", "1s", "--prefix", "mine/")
	if p.code != 2 || !strings.Contains(p.err, "the prefix is in use: mine/") || strings.Count(p.err, "\n") != 1 {
		t.Errorf("exit %d: %s%s", p.code, p.out, p.err)
	}
	if err := first.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	checkExit(t, ended, 130)
}

// Without a terminal there is no progress; on one there is a line that is removed.
func TestVerifyShowsItsProgressOnATerminal(t *testing.T) {
	t.Parallel()
	x := newTestEnv(t).terminal(100, "pawl", "verify", "--for", "2s")
	if err := <-x.done; err != nil {
		t.Fatalf("%v: %s", err, x.shown())
	}
	for _, want := range []string{"to go, ", " operations, ", "\r\x1b[K", "one holder at a time", "kept"} {
		if !strings.Contains(x.shown(), want) {
			t.Errorf("%q is missing in %q", want, x.shown())
		}
	}
}

// redisDo sends a command by the Redis tools, which the tests of Redis need anyway.
func redisDo(t *testing.T, addr string, args ...string) {
	t.Helper()
	host, port, _ := strings.Cut(addr, ":")
	out, err := exec.Command("redis-cli", append([]string{"-h", host, "-p", port}, args...)...).CombinedOutput()
	if err != nil || strings.HasPrefix(string(out), "ERR") || strings.HasPrefix(string(out), "(error)") {
		t.Fatalf("%v: %v %s", args, err, out)
	}
}
