//go:build linux

package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"regexp"
	"slices"
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

// The rows about consul are run while pawl inside consul's lock is held, and when it is
// free; so is that of the variables.
func TestTheDocumentedMoveFromConsul(t *testing.T) {
	t.Parallel()
	server, program := testserver.Consul(t)
	env := newTestEnv(t).with("CONSUL_HTTP_ADDR=" + server.Addr())
	store := "sqlite://" + env.path("shared.db")
	page, err := os.ReadFile("../../docs/coming-from.md")
	if err != nil {
		t.Fatal(err)
	}
	// A row's options, on both sides; the first row is that of the move without any.
	rows := regexp.MustCompile("(?m)^\\| `consul lock ([^`]*?)(?: …|job cmd)`.* \\| `pawl run (?:-s URL )?([^`]*?)(?: …|job -- cmd)` \\|").FindAllStringSubmatch(string(page), -1)
	if len(rows) != 3 {
		t.Fatalf("the page has %d rows about consul: %q", len(rows), rows)
	}
	if !strings.Contains(string(page), "`consul lock -shell=false job pawl run -s URL job -- cmd`") { // both, below
		t.Error("the page does not say how to move from consul")
	}
	shorter := strings.NewReplacer("30s", "2s")
	for i, row := range rows {
		t.Run("row "+row[0], func(t *testing.T) {
			name := fmt.Sprintf("job%d", i)
			old := append(append([]string{program, "lock", "-shell=false"}, strings.Fields(shorter.Replace(row[1]))...), name)
			moved := append(append([]string{"pawl", "run", "-s", store}, strings.Fields(shorter.Replace(row[2]))...), name, "--")
			both := slices.Concat(old, moved)
			sides := map[string][]string{"the old": old, "the new": moved, "both": both}
			held := 1
			if strings.Contains(row[1], "-n 4") {
				held = 4
			}
			for n := range held {
				env.holdBy(fmt.Sprintf("%s-%d", name, n), both...)
			}
			print := []string{"sh", "-c", "echo ran $CONSUL_LOCK_HELD $PAWL_LOCK_NAME"}
			for side, words := range sides {
				signal := "TERM"
				if words[0] == program {
					signal = "KILL" // it looks at others after a question of 15 s
				}
				if got := env.run("timeout", slices.Concat([]string{"-s", signal, "4"}, words, print)...); strings.Contains(got.out, "ran") || got.code == 0 {
					t.Errorf("%s beside %d of the move: %+v", side, held, got)
				}
			}
			env.release(name + "-0")
			for side, want := range map[string]string{"the old": "ran true\n", "the new": "ran " + name + "\n", "both": "ran true " + name + "\n"} {
				free := func() bool {
					got := env.run(sides[side][0], slices.Concat(sides[side][1:], print)...)
					if got.out != want || got.code != 0 {
						t.Logf("%s: %+v", side, got)
					}
					return got.out == want && got.code == 0
				}
				if !eventually(free) {
					t.Errorf("%s, free: never", side)
				}
			}
			for n := 1; n < held; n++ {
				env.release(fmt.Sprintf("%s-%d", name, n))
			}
		})
	}
	// The old command and the new one alone do not exclude each other: the page says so.
	env.holdBy("alone", program, "lock", "-shell=false", "alone")
	if got := env.run("pawl", "run", "-s", store, "-n", "alone", "--", "echo", "ran"); got.out != "ran\n" {
		t.Errorf("consul excludes pawl: %+v", got)
	}
}
