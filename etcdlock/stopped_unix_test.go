//go:build unix

package etcdlock

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/internal/testserver"
)

// holdsAt makes TestHolds the process that is stopped.
const holdsAt = "PAWL_ETCDLOCK_HOLDS_AT"

// A process that was stopped for longer than its TTL must know from its first check that it
// holds nothing any more (etcd#9911 and the Jepsen report on 3.4).
func TestAClientStoppedBeyondItsTTLKnowsItAtOnce(t *testing.T) {
	t.Parallel()
	addr := testserver.Etcd(t).Addr()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program, "-test.run=^TestHolds$")
	cmd.Env = append(os.Environ(), holdsAt+"="+addr)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	lines := bufio.NewScanner(out)
	read := func() string {
		if !lines.Scan() {
			t.Fatal("the other process ended")
		}
		return lines.Text()
	}
	if got := read(); got != "holds" {
		t.Fatalf("the other process says %q", got)
	}
	if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	l, err := stoppable(t, addr).Mutex("name").Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(in, "do you hold it?\n"); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if got := read(); !strings.HasPrefix(got, "lost, lost") {
		t.Errorf("a process that was stopped says %q about a lock that another holds", got)
	}
	if l.Err() != nil {
		t.Errorf("the other lost it: %v", l.Err())
	}
}

// stoppable returns a client for either process: both have the same prefix.
func stoppable(t *testing.T, addr string) *pawl.Client {
	c := pawl.New(New(dial(t, []string{addr})), pawl.WithTTL(3*time.Second))
	t.Cleanup(func() { c.Close() })
	return c
}

func TestHolds(t *testing.T) {
	addr := os.Getenv(holdsAt)
	if addr == "" {
		return // this is the other process of the test above
	}
	l, err := stoppable(t, addr).Mutex("name").Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println("holds")
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	say := func(err error) string {
		if errors.Is(err, pawl.ErrLost) {
			return "lost"
		}
		return fmt.Sprint(err)
	}
	first, ended := l.Err(), l.Context().Err() // in this order: each must know by itself
	fmt.Printf("%s, %s\n", say(first), say(errors.Join(ended, context.Cause(l.Context()))))
}
