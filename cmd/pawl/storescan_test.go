//go:build unix

package main

import (
	"bufio"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"

	"github.com/pawl-go/pawl/internal/testserver"
)

// Taking, waiting for, inspecting or breaking one lock only reads that lock: only
// ls and watch go through the keys of other programs.
func TestOnlyListingGoesThroughTheStore(t *testing.T) {
	t.Parallel()
	redis := testserver.Redis(t)
	env := newTestEnv(t).with("PAWL_STORE=redis://" + redis.Addr())
	env.hold("busy")
	env.fifo("over")
	env.start("leads", "pawl", "elect", "job", "10.0.0.7:80", "--", "sh", "-c", `exec 3<>over; echo leads >leads; read end <&3`)
	for _, step := range []struct {
		args string
		code int
	}{
		{"run -n busy -- true", 75},
		{"run -w 1s busy -- true", 75}, // long enough to show the holder
		{"run free -- true", 0},
		{"inspect busy", 0},
		{"inspect --json busy", 0},
		{"elect job", 0},
		{"elect -n job other -- true", 75},
		{"force-unlock --token 1 busy", 1},
	} {
		if p := env.run("pawl", strings.Fields(step.args)...); p.code != step.code {
			t.Errorf("pawl %s: exit %d, not %d: %s", step.args, p.code, step.code, p.err)
		}
	}
	if n := scans(t, redis.Addr()); n > 0 {
		t.Errorf("the store's keys were gone through %d times", n)
	}
	if p := env.run("pawl", "ls"); p.code != 0 || !strings.Contains(p.out, "busy") {
		t.Errorf("ls: exit %d: %s%s", p.code, p.out, p.err)
	}
	if scans(t, redis.Addr()) == 0 {
		t.Error("not even ls did")
	}
	env.release("busy")
	env.signalFIFO("over")
}

// scans returns how often SCAN was called on a Redis server.
func scans(t *testing.T, addr string) int {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "INFO commandstats\r\nQUIT\r\n"); err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(conn); lines.Scan(); {
		if rest, ok := strings.CutPrefix(lines.Text(), "cmdstat_scan:calls="); ok {
			n, _, _ := strings.Cut(rest, ",")
			calls, err := strconv.Atoi(n)
			if err != nil {
				t.Fatal(err)
			}
			return calls
		}
	}
	return 0
}
