package testserver

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/gofrs/flock"
)

// unpackLimit bounds the creation of one folder, including the wait for another
// process that creates it.
const unpackLimit = 5 * time.Minute

func debianRootName(packages []string) string {
	return "sid-" + runtime.GOARCH + "-" + strings.Join(slices.Sorted(slices.Values(packages)), "-")
}

// openDebianRoot returns the folder name in cache, and creates it if it is missing.
// It appears atomically: it is built elsewhere and renamed, by one process at a
// time. A process that dies leaves a partial folder, which the next one removes.
func openDebianRoot(ctx context.Context, cache, name string, packages []string) (DebianRoot, error) {
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return DebianRoot{}, err
	}
	dir := filepath.Join(cache, name)
	if root, err := findDebianRoot(dir); err == nil {
		return root, nil
	}
	lock := flock.New(dir + ".lock")
	defer lock.Close()
	if _, err := lock.TryLockContext(ctx, 100*time.Millisecond); err != nil {
		return DebianRoot{}, fmt.Errorf("another process makes %s: %w", dir, err)
	}
	if root, err := findDebianRoot(dir); err == nil {
		return root, nil // another process created it meanwhile
	}
	aside := dir + ".new"
	if err := os.RemoveAll(aside); err != nil {
		return DebianRoot{}, err
	}
	defer os.RemoveAll(aside)
	if err := os.Mkdir(aside, 0o700); err != nil { // no access for others until it is complete
		return DebianRoot{}, err
	}
	if err := unpackDebian(ctx, aside, packages); err != nil {
		return DebianRoot{}, err
	}
	if err := os.Rename(filepath.Join(aside, "root"), dir); err != nil {
		return DebianRoot{}, err
	}
	return findDebianRoot(dir)
}

// findDebianRoot returns the root in dir, if it exists.
func findDebianRoot(dir string) (DebianRoot, error) {
	loaders, err := filepath.Glob(filepath.Join(dir, "usr/lib/*/ld-linux*.so.*"))
	if err != nil {
		return DebianRoot{}, err
	}
	if len(loaders) == 0 {
		return DebianRoot{}, fmt.Errorf("%s: %w", dir, fs.ErrNotExist)
	}
	return DebianRoot{dir: dir, loader: loaders[0]}, nil
}

// unpackDebian downloads the packages with all dependencies and unpacks them below
// aside. It runs none of their scripts, so that it needs no chroot, no mount and no
// root rights, and leaves nothing but files if it is interrupted.
func unpackDebian(ctx context.Context, aside string, packages []string) error {
	debs, root := filepath.Join(aside, "debs"), filepath.Join(aside, "root")
	if err := os.Mkdir(root, 0o755); err != nil {
		return err
	}
	if err := execute(ctx, aside, "debootstrap", "--download-only", "--variant=minbase",
		"--include="+strings.Join(packages, ","), "sid", debs); err != nil {
		return err
	}
	files, err := filepath.Glob(filepath.Join(debs, "var/cache/apt/archives/*.deb"))
	if err != nil {
		return err
	}
	for _, file := range files {
		if err := execute(ctx, aside, "dpkg-deb", "--extract", file, root); err != nil {
			return err
		}
	}
	return removeSetuid(root)
}

// removeSetuid removes the setuid and setgid bits of all programs: nobody updates
// them, so none may run with its owner's rights.
func removeSetuid(root string) error {
	return filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		if info.Mode()&(fs.ModeSetuid|fs.ModeSetgid) == 0 {
			return nil
		}
		return os.Chmod(path, info.Mode().Perm())
	})
}

// execute runs a program; its output becomes part of the error.
func execute(ctx context.Context, dir, program string, args ...string) error {
	path, err := File{program}.locate()
	if err != nil {
		return err
	}
	said, err := os.Create(filepath.Join(dir, program+".log"))
	if err != nil {
		return err
	}
	defer said.Close()
	cmd := exec.Command(path, args...)
	cmd.Dir = dir
	cmd.Stdout, cmd.Stderr = said, said
	cmd.SysProcAttr = attributes(nil)
	p, err := startProcess(cmd)
	if err != nil {
		return err
	}
	select {
	case <-p.exited:
		if p.err != nil {
			return fmt.Errorf("%s: %w: %s", program, p.err, strings.TrimSpace(tail(said.Name(), 500)))
		}
		return nil
	case <-ctx.Done():
		return errors.Join(fmt.Errorf("%s: %w", program, ctx.Err()), p.kill())
	}
}
