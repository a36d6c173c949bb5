package testserver

import (
	"context"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

func TestValkeyAnswersDELIFEQ(t *testing.T) {
	t.Parallel()
	s := Valkey(t)
	beforeAndAfterKill(t, s, func(c *connection) {
		io.WriteString(c, "SET k v\r\nDELIFEQ k v\r\n")
		for _, want := range []string{"+OK\r\n", ":1\r\n"} {
			if answer, err := c.r.ReadString('\n'); err != nil || answer != want {
				t.Errorf("%q, %v; want %q", answer, err, want)
			}
		}
	})
}

func TestMySQLGreets(t *testing.T) {
	t.Parallel()
	s := MySQL(t)
	beforeAndAfterKill(t, s, func(c *connection) {
		var head [5]byte
		if _, err := io.ReadFull(c.r, head[:]); err != nil || head[4] != 10 {
			t.Fatalf("% x, %v; want protocol 10", head, err)
		}
		version, err := c.r.ReadString(0)
		if err != nil || strings.Contains(version, "MariaDB") || version[0] < '8' {
			t.Errorf("version %q, %v", version, err)
		}
	})
}

// Not parallel, because it changes the environment.
func TestAFailedDownloadSkipsTheTestEvenInCI(t *testing.T) {
	if _, err := (File{"debootstrap"}).locate(); err != nil {
		t.Skipf("optional server: %v", err)
	}
	cache := t.TempDir()
	t.Setenv("CI", "true")
	t.Setenv("PAWL_TEST_CACHE", cache)
	t.Setenv("http_proxy", "http://127.0.0.1:1") // nothing listens there
	const name = "hello"
	half := filepath.Join(cache, debianRootName([]string{name})+".new", "root", "usr")
	if err := os.MkdirAll(half, 0o700); err != nil { // left by a process that was killed
		t.Fatal(err)
	}
	r := record(t, func(t testing.TB) { DebianUnstable(t, name) })
	if !r.skipped || r.failed || !strings.HasPrefix(r.logged.String(), "optional server: "+name) {
		t.Errorf("skipped %v, failed %v: %s", r.skipped, r.failed, r.logged.String())
	}
	left, err := os.ReadDir(cache)
	if err != nil || len(left) != 1 || filepath.Ext(left[0].Name()) != ".lock" {
		t.Errorf("left in the cache: %v, %v", left, err)
	}
}

func TestAFolderThatIsThereIsNotMadeAgain(t *testing.T) {
	t.Parallel()
	cache := t.TempDir()
	lib := filepath.Join(cache, "sid-x", "usr", "lib", "x")
	if err := os.MkdirAll(lib, 0o755); err != nil {
		t.Fatal(err)
	}
	loader := filepath.Join(lib, "ld-linux-x.so.2")
	if err := os.WriteFile(loader, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // no time to create anything
	root, err := openDebianRoot(ctx, cache, "sid-x", []string{"x"})
	if err != nil || root.Loader() != loader {
		t.Errorf("%+v, %v", root, err)
	}
}

func TestUnpackedProgramsHaveNoSpecialRights(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("there are no such bits")
	}
	program := filepath.Join(t.TempDir(), "su")
	if err := os.WriteFile(program, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(program, 0o755|fs.ModeSetuid|fs.ModeSetgid); err != nil {
		t.Fatal(err)
	}
	if err := removeSetuid(filepath.Dir(program)); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(program); err != nil || info.Mode() != 0o755 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}
