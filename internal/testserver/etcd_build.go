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

// etcdVersion is the version that e2e/etcd/go.mod asks for.
const etcdVersion = "v3.7.3"

// etcdBuildLimit is for downloading and building, the wait for another process that
// does it included. It takes less than a minute.
const etcdBuildLimit = 5 * time.Minute

// unsynced has an etcd not wait for its disk. Its data outlives Kill and Restart all
// the same, though not a power cut; a disk that stalls would cost elections.
const withoutFsync = "--unsafe-no-fsync"

// NewEtcd starts an etcd as [Etcd] does, but a newer one than Debian's, and one that
// does not wait for its disk unless "--unsafe-no-fsync=false" is given. It is built
// from its Go module at the first call on a machine and kept in the folder that
// PAWL_TEST_CACHE names, or else in one of the user's own. Where the module cannot be
// had the test is skipped, even with CI=true: what lies outside cannot be promised.
func NewEtcd(t testing.TB, args ...string) *Server {
	t.Helper()
	return Start(t, newEtcd(t, args...))
}

func newEtcd(t testing.TB, args ...string) Spec {
	t.Helper()
	binary, err := builtEtcd()
	if err != nil {
		t.Skipf("optional server: etcd %s: %v", etcdVersion, err)
	}
	spec := etcd(append([]string{withoutFsync}, args...)...)
	spec.Name, spec.Binary = "etcd-"+etcdVersion, File{binary}
	return spec
}

// builtEtcd remembers what became of the build, so that a process tries one that
// fails only once.
var builtEtcd = sync.OnceValues(func() (string, error) {
	_, self, _, _ := runtime.Caller(0)
	module := filepath.Join(filepath.Dir(self), "..", "..", "e2e", "etcd")
	if _, err := os.Stat(filepath.Join(module, "go.mod")); err != nil {
		return "", err // as in a binary that was built with -trimpath
	}
	cache, err := debianCacheFolder()
	if err != nil {
		return "", err
	}
	// Not a test's context: others wait for the same binary.
	ctx, cancel := context.WithTimeout(context.Background(), etcdBuildLimit)
	defer cancel()
	return buildEtcd(ctx, cache, module)
})

// buildEtcd returns the binary in cache, and builds it if it is not there. It appears
// whole or not at all, and is built by one process at a time.
func buildEtcd(ctx context.Context, cache, module string) (string, error) {
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", err
	}
	binary := filepath.Join(cache, fmt.Sprintf("etcd-%s-%s-%s", etcdVersion, runtime.GOOS, runtime.GOARCH))
	if _, err := os.Stat(binary); err == nil {
		return binary, nil
	}
	lock := flock.New(binary + ".lock")
	defer lock.Close()
	if _, err := lock.TryLockContext(ctx, 100*time.Millisecond); err != nil {
		return "", fmt.Errorf("another process builds %s: %w", binary, err)
	}
	if _, err := os.Stat(binary); err == nil {
		return binary, nil // built while this one waited
	}
	aside := binary + ".new"
	defer os.Remove(aside)
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", aside, "go.etcd.io/etcd/server/v3")
	cmd.Dir = module
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=", "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w: %s", err, out)
	}
	return binary, os.Rename(aside, binary)
}
