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

// A Root is a folder that holds programs of Debian unstable with every library they
// need, down to the C library and its loader. They run on an older system without
// chroot and without being installed on it. [Sid] makes it.
type DebianRoot struct {
	dir    string
	loader string
}

// Sid returns a folder with the given packages of Debian unstable, newer than what
// the system itself may have. It is made at the first call on a machine, in about
// half a minute and without special rights, and kept from then on in the folder that
// PAWL_TEST_CACHE names, or else in one of the user's own; remove it there for newer
// versions.
//
// Without debootstrap the test is skipped, or fails with CI=true. Where the download
// fails it is skipped even there: what lies outside cannot be promised.
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

// Path returns where a file of the packages, such as "usr/share/mysql", is.
func (r DebianRoot) Path(name string) string { return filepath.Join(r.dir, filepath.FromSlash(name)) }

// Loader returns the path of the program that runs the others: a Spec's Binary.
func (r DebianRoot) Loader() string { return r.loader }

// Args returns the arguments with which the loader runs program, a path such as
// "usr/bin/valkey-server". The loader finds the libraries in the folder alone, and
// the process is the program's own: it takes the signals.
func (r DebianRoot) Args(program string, args ...string) []string {
	return append([]string{"--library-path", filepath.Dir(r.loader), r.Path(program)}, args...)
}

// sids remembers what became of each folder, so that a process tries a download that
// fails only once.
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
			// Not the test's context: others wait for the same folder.
			ctx, cancel := context.WithTimeout(context.Background(), unpackLimit)
			defer cancel()
			return openDebianRoot(ctx, cache, name, packages)
		})
		f.made[name] = get
	}
	f.mu.Unlock()
	return get()
}

// sidCache returns the folder for all roots. Root's own is one that others can read:
// a server may refuse to run as root, and as another user it must find its program.
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
