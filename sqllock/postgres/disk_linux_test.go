package postgres

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/internal/testserver"
)

// The disk of the server's log is full, so that it goes down in mid-hold and
// cannot come up again. The holder is told, those who want the lock are told that the
// server does not answer, and when there is room all goes on, with larger tokens.
func TestAFullDiskIsReportedAsALossAndEndsWithIt(t *testing.T) {
	t.Parallel()
	serverPool(t)
	if os.Geteuid() != 0 {
		t.Skip("optional server: mounting a small file system needs root")
	}
	s := testserver.PostgreSQL(t, "-c", "max_wal_size=32MB", "-c", "min_wal_size=32MB", "-c", "restart_after_crash=off")
	small := smallLog(t, s)
	store := urlOf(s.Addr())
	if err := openStore(t, store).Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	const ttl = 3 * time.Second
	c := openClient(t, store, pawl.WithTTL(ttl))
	l, err := c.Mutex("m").Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	filler := filepath.Join(small, "filler")
	fill(t, filler)
	exhaust(t, store)
	select {
	case <-s.Exited():
	case <-time.After(20 * ttl):
		t.Fatal("the server did not go down")
	}
	select {
	case <-l.Context().Done():
	case <-time.After(20 * ttl):
		t.Fatal("the holder did not learn of it")
	}
	if err := context.Cause(l.Context()); !errors.Is(err, pawl.ErrLost) {
		t.Errorf("the holder learnt of it: %v", err)
	}
	if _, err := openClient(t, store).Mutex("other").TryLock(t.Context()); !errors.Is(err, pawl.ErrUnreachable) {
		t.Errorf("an acquire of the lock: %v", err)
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	s.Restart()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	next, err := openClient(t, store).Mutex("m").Lock(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if next.Token() <= l.Token() {
		t.Errorf("token %d after the disk was full, %d before", next.Token(), l.Token())
	}
	if err := next.Unlock(); err != nil {
		t.Error(err)
	}
}

// smallLog moves the server's log to a disk with room for a few of its files.
func smallLog(t *testing.T, s *testserver.Server) (dir string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "pawl-log-") // the folder of t.TempDir is closed to the server's user
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("none", dir, "tmpfs", 0, "size=64m,mode=0755"); err != nil {
		_ = os.Remove(dir) // it is empty
		t.Skipf("optional server: mount: %v", err)
	}
	t.Cleanup(func() {
		s.Stop()
		if err := errors.Join(syscall.Unmount(dir, syscall.MNT_DETACH), os.Remove(dir)); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	s.Stop()
	log := filepath.Join(s.Dir(), "data", "pg_wal")
	if out, err := exec.CommandContext(t.Context(), "cp", "-a", log, dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if err := errors.Join(os.RemoveAll(log), os.Symlink(filepath.Join(dir, "pg_wal"), log)); err != nil {
		t.Fatal(err)
	}
	s.Restart()
	return dir
}

// fill writes a file until there is no room.
func fill(t *testing.T, name string) {
	t.Helper()
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for block := make([]byte, 64<<10); ; {
		if _, err := f.Write(block); errors.Is(err, syscall.ENOSPC) {
			return
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

// exhaust writes to the log until the server can no more.
func exhaust(t *testing.T, store string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), store)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	if _, err := conn.Exec(t.Context(), "CREATE TABLE much (words text)"); err != nil {
		t.Fatal(err)
	}
	for begun := time.Now(); err == nil; {
		if time.Since(begun) > time.Minute {
			t.Fatal("the server still has room after a minute")
		}
		_, err = conn.Exec(t.Context(), "INSERT INTO much SELECT repeat('x', 1000) FROM generate_series(1, 1000)")
	}
}
