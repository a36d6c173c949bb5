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

// A Clock is a wall clock for servers that a test can change while they run. It
// works for C programs on Linux. Programs that call the kernel directly, as Go
// programs do, are not affected.
type Clock struct {
	t       testing.TB
	file    string
	library string

	mu  sync.Mutex // guards off
	off time.Duration
}

// NewClock returns a clock that shows the right time. It needs gcc.
func NewClock(t testing.TB) *Clock {
	t.Helper()
	gcc, err := exec.LookPath("gcc")
	if err != nil {
		skipOrFail(t, err)
	}
	dir, err := os.MkdirTemp("", "pawl-clock-") // not t.TempDir, which other users cannot read
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

// Step moves the clock, backwards if d is negative.
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
	// Eight bytes in one write: a concurrent reader sees the old or the new value.
	if _, err := f.WriteAt(binary.NativeEndian.AppendUint64(nil, uint64(c.off.Microseconds())), 0); err != nil {
		c.t.Error(err)
	}
}

// RedisOn starts a Redis that uses clock c.
func RedisOn(t testing.TB, c *Clock, args ...string) *Server {
	t.Helper()
	return Start(t, c.on(redis(args...)))
}

// PostgreSQLOn starts a PostgreSQL that uses clock c.
func PostgreSQLOn(t testing.TB, c *Clock, args ...string) *Server {
	t.Helper()
	return Start(t, c.on(postgreSQL(args...)))
}

// MariaDBOn starts a MariaDB that uses clock c.
func MariaDBOn(t testing.TB, c *Clock, args ...string) *Server {
	t.Helper()
	return Start(t, c.on(mariaDB(args...)))
}

func (c *Clock) on(spec Spec) Spec {
	spec.Env = append(spec.Env, "LD_PRELOAD="+c.library, "PAWL_CLOCK="+c.file)
	return spec
}
