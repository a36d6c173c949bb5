package testserver

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// A DebianRoot is a folder with programs of Debian unstable and every library they
// need, including the C library and its loader. They run on an older system without
// chroot and without installation. [DebianUnstable] creates it.
type DebianRoot struct {
	dir    string
	loader string
}

// DebianUnstable returns a folder with the given packages of Debian unstable, which
// are newer than those of the system. The first call on a machine creates it, in
// about half a minute and without special rights, in the folder PAWL_TEST_CACHE or
// one of the user's own; remove it there to get newer versions.
//
// Without debootstrap the test is skipped, or fails with CI=true. If the download
// fails the test is skipped even then, because the outside world is not under our
// control.
func DebianUnstable(t testing.TB, packages ...string) DebianRoot {
	t.Helper()
	for _, program := range []string{"debootstrap", "dpkg-deb"} {
		if _, err := (File{program}).locate(); err != nil {
			skipOrFail(t, fmt.Errorf("%s of Debian unstable: %w (Debian: apt-get install debootstrap)", strings.Join(packages, ", "), err))
		}
	}
	root, err := debianRoots.root(packages)
	if err != nil {
		t.Skipf("optional server: %s of Debian unstable: %v", strings.Join(packages, ", "), err)
	}
	return root
}

// Path returns the path of a file of the packages, such as "usr/share/mysql".
func (r DebianRoot) Path(name string) string { return filepath.Join(r.dir, filepath.FromSlash(name)) }

// Loader returns the path of the dynamic loader, which runs the other programs: a
// Spec's Binary.
func (r DebianRoot) Loader() string { return r.loader }

// Args returns the arguments with which the loader runs program, a path such as
// "usr/bin/valkey-server". The loader uses only libraries of the folder, and the
// process becomes the program itself, so that signals reach it.
func (r DebianRoot) Args(program string, args ...string) []string {
	return append([]string{"--library-path", filepath.Dir(r.loader), r.Path(program)}, args...)
}

// debianRoots caches the result for each folder, so that a process does not repeat
// a failed download.
var debianRoots debianRootCache

type debianRootCache struct {
	mu   sync.Mutex // guards made
	made map[string]func() (DebianRoot, error)
}

func (f *debianRootCache) root(packages []string) (DebianRoot, error) {
	name := debianRootName(packages)
	f.mu.Lock()
	get := f.made[name]
	if get == nil {
		if f.made == nil {
			f.made = map[string]func() (DebianRoot, error){}
		}
		get = sync.OnceValues(func() (DebianRoot, error) {
			cache, err := debianCacheFolder()
			if err != nil {
				return DebianRoot{}, err
			}
			// Not the test's context: other tests wait for the same folder.
			ctx, cancel := context.WithTimeout(context.Background(), unpackLimit)
			defer cancel()
			return openDebianRoot(ctx, cache, name, packages)
		})
		f.made[name] = get
	}
	f.mu.Unlock()
	return get()
}

// debianCacheFolder returns the folder for all roots. Root's own is readable by
// others: a server may refuse to run as root, and another user must be able to read
// the program.
func debianCacheFolder() (string, error) {
	if dir := os.Getenv("PAWL_TEST_CACHE"); dir != "" {
		return filepath.Abs(dir)
	}
	if os.Geteuid() == 0 {
		return "/var/cache/pawl", nil
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, "pawl"), nil
}
