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

// etcdVersion is the version in e2e/etcd/go.mod.
const etcdVersion = "v3.7.3"

// etcdBuildLimit bounds download and build, including the wait for another process
// that does it. It usually takes less than a minute.
const etcdBuildLimit = 5 * time.Minute

// withoutFsync makes etcd not wait for its disk. Data survives Kill and Restart
// anyway, though not a power cut. A disk that stalls would cause elections.
const withoutFsync = "--unsafe-no-fsync"

// NewEtcd is like [Etcd], with a newer version than Debian's and without waiting
// for the disk, unless "--unsafe-no-fsync=false" is given. The first call on a
// machine builds it from its Go module, in the folder PAWL_TEST_CACHE or one of the
// user's own. If the module cannot be downloaded the test is skipped, even with
// CI=true, because the outside world is not under our control.
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

// builtEtcd caches the result, so that a process does not repeat a failed build.
var builtEtcd = sync.OnceValues(func() (string, error) {
	_, self, _, _ := runtime.Caller(0)
	module := filepath.Join(filepath.Dir(self), "..", "..", "e2e", "etcd")
	if _, err := os.Stat(filepath.Join(module, "go.mod")); err != nil {
		return "", err // for example in a binary that was built with -trimpath
	}
	cache, err := debianCacheFolder()
	if err != nil {
		return "", err
	}
	// Not the test's context: other tests wait for the same binary.
	ctx, cancel := context.WithTimeout(context.Background(), etcdBuildLimit)
	defer cancel()
	return buildEtcd(ctx, cache, module)
})

// buildEtcd returns the binary in cache, and builds it if it is missing. It appears
// atomically, and only one process builds at a time.
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
		return binary, nil // another process built it meanwhile
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
