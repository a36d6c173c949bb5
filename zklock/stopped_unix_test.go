//go:build unix

package zklock

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
)

// roleEnv has the test binary be a client that holds a lock, at the URL it names.
const roleEnv = "PAWL_ZKLOCK_HOLDER"

func init() {
	if store := os.Getenv(roleEnv); store != "" {
		if err := beHolder(store); err != nil {
			fmt.Println("failed", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
}

// beHolder locks, and says when it still believed that it holds, until it does not.
func beHolder(store string) error {
	c, err := pawl.Open(context.Background(), store)
	if err != nil {
		return err
	}
	l, err := c.Mutex("job").Lock(context.Background())
	if err != nil {
		return err
	}
	fmt.Println("holds", l.Token())
	for l.Err() == nil {
		fmt.Println("works", time.Now().UnixNano())
		time.Sleep(2 * time.Millisecond)
	}
	fmt.Println("lost", context.Cause(l.Context()))
	return nil
}

func TestAClientThatWasStoppedKnowsItBeforeItWorksOn(t *testing.T) {
	t.Parallel()
	path := pathOf(t)
	const ttl = 2 * time.Second
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=zk://%s%s?ttl=%s", roleEnv, oneServer(t), path, ttl))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	var token uint64
	for token == 0 && lines.Scan() {
		if _, err := fmt.Sscanf(lines.Text(), "holds %d", &token); err != nil {
			t.Fatalf("the holder says %q", lines.Text())
		}
	}
	c := pawl.New(connect(t, []string{oneServer(t)}, WithPath(path)), pawl.WithTTL(ttl))
	defer c.Close()
	if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	rival, err := c.Mutex("job").Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	holds := time.Now()
	if rival.Token() <= token {
		t.Errorf("token %d follows %d", rival.Token(), token)
	}
	t.Logf("the rival held %v after the holder was stopped, with a TTL of %v", holds.Sub(begun), ttl)
	if err := cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	last := ""
	for lines.Scan() {
		last = lines.Text()
		var nanos int64
		if _, err := fmt.Sscanf(last, "works %d", &nanos); err == nil && nanos > holds.UnixNano() {
			t.Errorf("it worked on %v after the rival held", time.Duration(nanos-holds.UnixNano()))
		}
	}
	if err := cmd.Wait(); err != nil || !strings.HasPrefix(last, "lost") {
		t.Errorf("the holder ended with %q, %v", last, err)
	}
	if rival.Err() != nil {
		t.Errorf("the rival: %v", rival.Err())
	}
}
