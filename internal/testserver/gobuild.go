package testserver

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/gofrs/flock"
)

// buildLimit bounds download and build, including the wait for another process
// that does it. It usually takes about a minute.
const buildLimit = 5 * time.Minute

// A goServer is a server that is built from its Go module, which a folder below e2e pins.
// The first use on a machine builds it, in the folder PAWL_TEST_CACHE or one of the
// user's own.
type goServer struct {
	name    string // of the server, and of the folder below e2e
	version string // the one in the folder's go.mod
	pkg     string
	built   func() (string, error) // keeps the result, so that a process does not repeat a failed build
}

func newGoServer(name, version, pkg string) *goServer {
	g := &goServer{name: name, version: version, pkg: pkg}
	g.built = sync.OnceValues(g.find)
	return g
}

// binary returns the program. If the module cannot be downloaded the test is skipped,
// even with CI=true, because the outside world is not under our control.
func (g *goServer) binary(t testing.TB) File {
	t.Helper()
	binary, err := g.built()
	if err != nil {
		t.Skipf("optional server: %s %s: %v", g.name, g.version, err)
	}
	return File{binary}
}

func (g *goServer) find() (string, error) {
	_, self, _, _ := runtime.Caller(0)
	module := filepath.Join(filepath.Dir(self), "..", "..", "e2e", g.name)
	if _, err := os.Stat(filepath.Join(module, "go.mod")); err != nil {
		return "", err // for example in a binary that was built with -trimpath
	}
	cache, err := debianCacheFolder()
	if err != nil {
		return "", err
	}
	// Not the test's context: other tests wait for the same binary.
	ctx, cancel := context.WithTimeout(context.Background(), buildLimit)
	defer cancel()
	return g.build(ctx, cache, module)
}

// build returns the binary in cache, and builds it if it is missing. It appears
// atomically, and only one process builds at a time.
func (g *goServer) build(ctx context.Context, cache, module string) (string, error) {
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", err
	}
	binary := filepath.Join(cache, fmt.Sprintf("%s-%s-%s-%s", g.name, g.version, runtime.GOOS, runtime.GOARCH))
	if _, err := os.Stat(binary); err == nil {
		return binary, nil
	}
	lock := flock.New(binary + ".lock")
	defer lock.Close()
	if _, err := lock.TryLockContext(ctx, 100*time.Millisecond); err != nil {
		return "", fmt.Errorf("another process builds %s: %w", binary, err)
	}
	if _, err := os.Stat(binary); err == nil {
		return binary, nil // another process built it meanwhile
	}
	aside := binary + ".new"
	defer os.Remove(aside)
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", aside, g.pkg)
	cmd.Dir = module
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=", "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w: %s", err, out)
	}
	return binary, os.Rename(aside, binary)
}
