package redislock_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/internal/testserver"
)

// A server that restarts with its data keeps the locks. A server that restarts without
// them loses the locks, and the holder learns it. Tokens grow in both cases.
func TestAServerIsKilledAndRestarted(t *testing.T) {
	t.Parallel()
	const ttl = 3 * time.Second
	for about, args := range map[string][]string{
		"writing every command": {"--appendonly", "yes", "--appendfsync", "always"},
		"without persistence":   nil,
	} {
		t.Run(about, func(t *testing.T) {
			t.Parallel()
			keeps := args != nil
			s := testserver.Redis(t, args...)
			c, rival := open(t, "redis://"+s.Addr(), pawl.WithTTL(ttl)), open(t, "redis://"+s.Addr(), pawl.WithTTL(ttl))
			l := lock(t, c.Mutex("name"))
			r, err := c.RWMutex("read").RLock(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			s.Kill()
			s.Restart()
			limit := 20 * time.Second
			if keeps {
				limit = 2 * time.Second // it must not succeed
			}
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			next, err := rival.Mutex("name").Lock(ctx)
			if keeps {
				if err == nil {
					t.Error("a rival holds what the server had written down")
				}
				if l.Err() != nil || r.Err() != nil {
					t.Errorf("the holds are over: %v, %v", l.Err(), r.Err())
				}
				unlock(t, l)
				unlock(t, r)
				next = lock(t, rival.Mutex("name"))
			} else {
				if err != nil {
					t.Fatalf("the name is not free: %v", err)
				}
				lost(t, l, ttl)
				lost(t, r, ttl)
			}
			if next.Fence() <= l.Fence() {
				t.Errorf("token %d after %d", next.Fence(), l.Fence())
			}
			unlock(t, next)
		})
	}
}

// During CLIENT PAUSE the server answers no call. A pause shorter than the lease has no
// effect; during a longer one the lease ends in time.
func TestAServerThatPauses(t *testing.T) {
	t.Parallel()
	const ttl = steady
	s := testserver.Redis(t)
	at := newConsole(t, s.Addr())
	c := open(t, "redis://"+s.Addr(), pawl.WithTTL(ttl))
	l := lock(t, c.Mutex("short"))
	at.do("CLIENT", "PAUSE", fmt.Sprint((ttl * 2 / 5).Milliseconds()), "ALL")
	time.Sleep(ttl * 7 / 10)
	if err := l.Err(); err != nil {
		t.Errorf("a short pause ended the hold: %v", err)
	}
	unlock(t, l)
	l = lock(t, c.Mutex("long"))
	locked := time.Now()
	at.do("CLIENT", "PAUSE", fmt.Sprint((ttl * 3 / 2).Milliseconds()), "ALL")
	paused := time.Now()
	lost(t, l, ttl+time.Second)
	if until := l.Deadline(); until.After(paused.Add(ttl)) || until.Before(locked) {
		t.Errorf("told %v after the pause began, the lease was %v", until.Sub(paused), ttl)
	}
	unlock(t, lock(t, c.Mutex("other"))) // the client works again
}

// With a full disk the server refuses every write, releases included. The lease ends in
// time, and the client recovers when there is room.
func TestADiskThatIsFull(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("optional server: mounting a small file system needs root")
	}
	const ttl = time.Second
	small := t.TempDir()
	if err := syscall.Mount("none", small, "tmpfs", 0, "size=256k"); err != nil {
		t.Skipf("optional server: mount: %v", err)
	}
	t.Cleanup(func() { // runs after the cleanup that stops the server
		if err := syscall.Unmount(small, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	s := testserver.Redis(t, "--dir", small, "--stop-writes-on-bgsave-error", "yes")
	at := newConsole(t, s.Addr())
	c := open(t, "redis://"+s.Addr(), pawl.WithTTL(ttl))
	l := lock(t, c.Mutex("name"))
	if err := os.WriteFile(small+"/full", make([]byte, 252<<10), 0o600); err != nil {
		t.Fatal(err)
	}
	at.do("EVAL", "for i = 1, 4000 do redis.call('SET', 'b' .. i, redis.sha1hex(i) .. redis.sha1hex(-i)) end", "0")
	at.do("CONFIG", "SET", "save", "1 1")
	until(t, 30*time.Second, "refusing writes", func() bool {
		_, err := at.try("SET", "x", "y")
		return err != nil && strings.Contains(err.Error(), "MISCONF")
	})
	ctx, cancel := context.WithTimeout(t.Context(), ttl)
	defer cancel()
	if _, err := c.Mutex("other").TryLock(ctx); err == nil || !strings.Contains(err.Error(), "MISCONF") {
		t.Errorf("TryLock: %v", err)
	}
	lost(t, l, 3*ttl)
	if err := os.Remove(small + "/full"); err != nil {
		t.Fatal(err)
	}
	at.do("CONFIG", "SET", "save", "")
	at.do("CONFIG", "SET", "stop-writes-on-bgsave-error", "no")
	unlock(t, lock(t, c.Mutex("name")))
}

// A process that is stopped until its lease has expired sees the loss in its first call of
// Err after it resumes, and its token is lower than the next holder's.
func TestAStoppedProcessSeesTheLossFirst(t *testing.T) {
	if addr := os.Getenv("PAWL_TEST_STOPPED"); addr != "" {
		stopped(t, addr)
		return
	}
	t.Parallel()
	s := testserver.Redis(t)
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestAStoppedProcessSeesTheLossFirst$", "-test.v")
	cmd.Env = append(os.Environ(), "PAWL_TEST_STOPPED="+s.Addr())
	out := &strings.Builder{}
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	at := newConsole(t, s.Addr())
	until(t, 20*time.Second, "held by the process", func() bool { return at.do("EXISTS", "watching") == "1" })
	if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	rival := open(t, "redis://"+s.Addr()) // with the default TTL
	next := lock(t, rival.Mutex("name"))
	at.do("SET", "seen", fmt.Sprint(next.Token()))
	if err := cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("the stopped process: %v\n%s", err, out)
	}
	unlock(t, next)
}

// stopped holds the lock until it notices that it was stopped.
func stopped(t *testing.T, addr string) {
	c := open(t, "redis://"+addr, pawl.WithTTL(time.Second))
	at := newConsole(t, addr)
	l := lock(t, c.Mutex("name"))
	last := time.Now()
	at.do("SET", "watching", "1") // from now on it may be stopped
	for {
		now := time.Now()
		err := l.Err() // first, before this process does anything else
		if slept := now.Sub(last); slept > time.Second/2 {
			if !errors.Is(err, pawl.ErrLost) {
				t.Errorf("after %v of sleep the lease says %v", slept, err)
			}
			break
		}
		last = now
		time.Sleep(time.Millisecond)
	}
	until(t, 5*time.Second, "told of the rival's token", func() bool { return at.do("EXISTS", "seen") == "1" })
	if seen := at.do("GET", "seen"); len(seen) < len(fmt.Sprint(l.Token())) || seen <= fmt.Sprint(l.Token()) {
		t.Errorf("the rival's token is %s, ours %d", seen, l.Token())
	}
	if err := l.Unlock(); !errors.Is(err, pawl.ErrLost) {
		t.Errorf("Unlock: %v, not ErrLost", err)
	}
	if at.do("EXISTS", "pawl:name") != "1" {
		t.Error("the rival's hold was ended")
	}
}
