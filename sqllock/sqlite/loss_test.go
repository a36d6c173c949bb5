//go:build unix

package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/internal/stalltest"
)

func init() {
	// pause holds a lock, is stopped, and says what the first call after it said.
	roles["pause"] = func(args []string) error { return pause(args[0]) }
}

// TestLossIsReportedWhileAnotherProcessHasTheFile: nothing can be written, so no
// beat is answered, and every lease must end by the clock before its TTL is over.
func TestLossIsReportedWhileAnotherProcessHasTheFile(t *testing.T) {
	const ttl = 2 * time.Second
	stalltest.Within(t, ttl-1, "the last of twenty learnt of it", func() (last time.Duration) {
		var wg sync.WaitGroup
		var mu sync.Mutex // guards last
		for i := range 20 {
			path := filepath.Join(t.TempDir(), "pawl.db")
			c := pawl.New(openFile(t, path), pawl.WithTTL(ttl))
			t.Cleanup(func() { c.Close() })
			lease, err := c.Mutex("a").Lock(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			writer, _ := start(t, "write", path)
			blocked := time.Now() // whatever was confirmed was sent before this
			wg.Go(func() {
				<-lease.Context().Done()
				took := time.Since(blocked)
				mu.Lock()
				last = max(last, took)
				mu.Unlock()
				if err := context.Cause(lease.Context()); !errors.Is(err, pawl.ErrLost) {
					t.Errorf("lease %d: %v", i, err)
				}
				writer.Process.Kill() // the file is free again; cleanup waits for the process
				if err := lease.Unlock(); !errors.Is(err, pawl.ErrLost) {
					t.Errorf("lease %d: unlock: %v", i, err)
				}
			})
		}
		wg.Wait()
		return last
	})
}

// pause looks at the clock until a jump shows that it was stopped, and then asks
// its lease before anything else.
func pause(path string) error {
	c, err := pawl.Open(context.Background(), "sqlite://"+path, pawl.WithTTL(500*time.Millisecond))
	if err != nil {
		return err
	}
	lease, err := c.Mutex("a").Lock(context.Background())
	if err != nil {
		return err
	}
	last := time.Now() // before the word is given: the stop may follow at once
	fmt.Println("held")
	for ; ; last = time.Now() {
		time.Sleep(time.Millisecond)
		if time.Since(last) < time.Second {
			continue
		}
		first := lease.Err()
		woke := time.Now()
		<-lease.Context().Done()
		fmt.Printf("lost=%v within=%v\n", errors.Is(first, pawl.ErrLost), time.Since(woke) < time.Second)
		return nil
	}
}

// TestAProcessStoppedBeyondItsTTLSaysLostAtTheFirstCall, and while it was stopped
// another had the lock.
func TestAProcessStoppedBeyondItsTTLSaysLostAtTheFirstCall(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pawl.db")
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), roleEnv+"=pause "+path)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill() })
	if _, err := io.ReadFull(out, make([]byte, len("held\n"))); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	stopped := time.Now()
	c := pawl.New(openFile(t, path))
	defer c.Close()
	rival, err := c.Mutex("a").Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if waited := time.Since(stopped); waited > 20*time.Second {
		t.Errorf("a stopped holder was waited for %v, with a TTL of 500ms", waited)
	}
	time.Sleep(time.Until(stopped.Add(1500 * time.Millisecond)))
	if err := cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	said, err := io.ReadAll(out)
	if err != nil || cmd.Wait() != nil || !strings.Contains(string(said), "lost=true within=true") {
		t.Errorf("it said %q, %v", said, err)
	}
	if err := rival.Err(); err != nil {
		t.Error("the rival lost its lock by it:", err)
	}
	rival.Unlock()
}
