//go:build linux

package main

import (
	"net"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/pawl-go/pawl/internal/testserver"
)

// holdBy holds a lock by a command, until release. Its last words are those of a program.
func (env *testEnv) holdBy(name string, words ...string) {
	env.t.Helper()
	env.fifo("go-" + name)
	words = append(words, "sh", "-c", `exec 3<>"go-$0"; echo held >"held-$0"; read end <&3`, name)
	env.start("held-"+name, words[0], words[1:]...)
}

// Each row of the table in docs/coming-from.md is run, both sides at once: while pawl inside
// the old lock is held, as the page says for the time of the move, and when both are free.
func TestTheDocumentedMoveFromFlock(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/coming-from.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile("(?m)^\\| `(flock [^`]*)` \\| `(pawl run [^`]*)`").FindAllStringSubmatch(string(page), -1)
	if len(rows) != 6 {
		t.Fatalf("the page has %d rows about flock", len(rows))
	}
	env := newTestEnv(t)
	run := func(row string, held bool) commandResult {
		limit, wait := "60", " 50 " // a slow machine may need them
		if held {
			limit, wait = "2", " 0.2 "
		}
		script := strings.NewReplacer("/tmp/job.lock", "file", " 10 ", wait, "a \\| b", "echo ran | cat", "cmd", "echo ran")
		return env.run("sh", "-c", "timeout --foreground "+limit+" "+script.Replace(row))
	}
	for _, held := range []bool{true, false} {
		if held {
			env.holdBy("both", "flock", "file", "pawl", "run", "job", "--")
		} else {
			env.release("both")
			if !eventually(func() bool { return env.run("flock", "-n", "file", "true").code == 0 }) {
				t.Fatal("the lock is never free")
			}
		}
		for _, row := range rows {
			for _, side := range row[1:] {
				if got := run(side, held); (got.out == "ran\n") == held || (got.code == 0) == held && !strings.Contains(side, "-E 0") {
					t.Errorf("held %v: %s: %+v", held, side, got)
				}
			}
		}
	}
	// The old command and the new one alone do not exclude each other: the page says so.
	env.holdBy("alone", "flock", "file")
	if got := run(rows[1][2], false); got.out != "ran\n" {
		t.Errorf("flock excludes pawl: %+v", got)
	}
	if got := run("flock -n file pawl run job -- cmd", true); got.code != 1 {
		t.Errorf("the move, beside flock: %+v", got)
	}
}

func TestTheDocumentedMoveFromEtcdctl(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("etcdctl"); err != nil {
		t.Skip("no etcdctl")
	}
	host := testserver.Etcd(t).Addr()
	if _, _, err := net.SplitHostPort(host); err != nil {
		t.Fatal(err)
	}
	env := newTestEnv(t).with("ETCDCTL_API=3", "ETCDCTL_ENDPOINTS="+host, "PAWL_STORE=")
	page, err := os.ReadFile("../../docs/coming-from.md")
	if err != nil {
		t.Fatal(err)
	}
	move := regexp.MustCompile("`(etcdctl lock .* --) (pawl run .* --) cmd`").FindStringSubmatch(string(page))
	if move == nil {
		t.Fatal("the page does not say how to move from etcdctl")
	}
	old, moved := strings.Fields(move[1]), strings.Fields(strings.ReplaceAll(move[2], "etcd://host", "etcd://"+host))
	const limit = "3" // seconds, for what must not end
	env.holdBy("both", append(old, moved...)...)
	for _, words := range [][]string{old, moved, append(old, moved...)} {
		if got := env.run("timeout", append([]string{limit}, append(words, "echo", "ran")...)...); strings.Contains(got.out, "ran\n") || got.code == 0 {
			t.Errorf("%q beside the move: %+v", words, got)
		}
	}
	env.release("both")
	if got := env.run(old[0], append(old[1:], append(moved, "echo", "ran")...)...); got.out != "ran\n" || got.code != 0 {
		t.Errorf("free: %+v", got)
	}
	env.holdBy("alone", old...)
	if got := env.run(moved[0], append(moved[1:], "echo", "ran")...); got.out != "ran\n" {
		t.Errorf("etcdctl excludes pawl: %+v", got)
	}
}
