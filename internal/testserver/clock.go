package testserver

import (
	_ "embed"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

//go:embed preload/clock.c
var clockShim []byte

// A Clock is the wall clock of servers, which a test can step while they run. It
// works for programs in C on Linux; what asks the kernel past the C library, as
// programs in Go do, is not deceived.
type Clock struct {
	t       testing.TB
	file    string
	library string

	mu  sync.Mutex // guards off
	off time.Duration
}

// NewClock makes a clock that shows the right time. It needs gcc.
func NewClock(t testing.TB) *Clock {
	t.Helper()
	gcc, err := exec.LookPath("gcc")
	if err != nil {
		skipOrFail(t, err)
	}
	dir, err := os.MkdirTemp("", "pawl-clock-") // not t.TempDir: a server of another user must get in
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	c := &Clock{t: t, file: filepath.Join(dir, "offset"), library: filepath.Join(dir, "clock.so")}
	source := filepath.Join(dir, "clock.c")
	for path, data := range map[string][]byte{source: clockShim, c.file: make([]byte, 8)} {
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := exec.CommandContext(t.Context(), gcc, "-shared", "-fPIC", "-O2", "-o", c.library, source, "-ldl").CombinedOutput(); err != nil {
		t.Fatalf("clock: %v\n%s", err, out)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return c
}

// Step moves the clock, back if d is negative.
func (c *Clock) Step(d time.Duration) {
	c.t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.off += d
	f, err := os.OpenFile(c.file, os.O_WRONLY, 0)
	if err != nil {
		c.t.Error(err)
		return
	}
	defer f.Close()
	// One write of eight bytes: a server that reads meanwhile sees the old or the new.
	if _, err := f.WriteAt(binary.NativeEndian.AppendUint64(nil, uint64(c.off.Microseconds())), 0); err != nil {
		c.t.Error(err)
	}
}

// RedisOn starts a Redis whose clock is c.
func RedisOn(t testing.TB, c *Clock, args ...string) *Server {
	t.Helper()
	return Start(t, c.on(redis(args...)))
}

// PostgreSQLOn starts a PostgreSQL whose clock is c.
func PostgreSQLOn(t testing.TB, c *Clock, args ...string) *Server {
	t.Helper()
	return Start(t, c.on(postgreSQL(args...)))
}

// MariaDBOn starts a MariaDB whose clock is c.
func MariaDBOn(t testing.TB, c *Clock, args ...string) *Server {
	t.Helper()
	return Start(t, c.on(mariaDB(args...)))
}

func (c *Clock) on(spec Spec) Spec {
	spec.Env = append(spec.Env, "LD_PRELOAD="+c.library, "PAWL_CLOCK="+c.file)
	return spec
}
