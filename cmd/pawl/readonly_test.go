//go:build unix

package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// found returns the files of a folder with owner and mode.
func found(t *testing.T, dir string) (all []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		uid, _ := ownerOf(info)
		all = append(all, strings.Join([]string{path, info.Mode().String(), number(uid)}, " "))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func (env *testEnv) mode(name string) fs.FileMode {
	env.t.Helper()
	info, err := os.Stat(env.path(name))
	if err != nil {
		env.t.Fatal(err)
	}
	return info.Mode().Perm()
}

func TestCommandsThatOnlyLookMakeNoStore(t *testing.T) {
	t.Parallel()
	env := newTestEnv(t)
	for _, args := range [][]string{{"ls"}, {"ls", "--json"}, {"inspect", "x"}, {"watch"}} {
		p := env.run("pawl", append([]string{"-s", "sqlite:tpyo.db"}, args...)...)
		if p.code != 69 || !strings.Contains(p.err, "no such file") || p.out != "" {
			t.Errorf("%v of a file that is not there: %+v", args, p)
		}
	}
	// The local store cannot be misspelt.
	env = env.with("PAWL_STORE=local:")
	if p := env.run("pawl", "ls", "--json"); p.code != 0 || p.out != "[]\n" {
		t.Errorf("ls where nothing was ever locked: %+v", p)
	}
	if p := env.run("pawl", "inspect", "x"); p.code != 0 || !strings.Contains(p.out, "free") || !strings.Contains(p.out, env.path("state")) {
		t.Errorf("inspect where nothing was ever locked: %+v", p)
	}
	if p := env.run("pawl", "watch"); p.code != 69 || !strings.Contains(p.err, "no such file") {
		t.Errorf("watch where nothing was ever locked: %+v", p)
	}
	if p := env.run("pawl", "version", "-v"); p.code != 0 {
		t.Errorf("version: %+v", p)
	}
	if files, _ := os.ReadDir(env.dir); len(files) != 0 {
		t.Errorf("made: %v", files)
	}
}

func TestTheLocalStoreIsClosedToOthers(t *testing.T) {
	t.Parallel()
	env := newTestEnv(t).with("PAWL_STORE=local:")
	if p := env.run("pawl", "run", "x", "--", "true"); p.code != 0 {
		t.Fatalf("%+v", p)
	}
	if folder, file := env.mode("state"), env.mode("state/locks.db"); folder != 0o700 || file != 0o600 {
		t.Errorf("a new store has the modes %o and %o", folder, file)
	}
	// As created with a umask of 022, or changed by somebody.
	for name, mode := range map[string]fs.FileMode{"state": 0o755, "state/locks.db": 0o644, "state/locks.db-wal": 0o666} {
		if err := os.Chmod(env.path(name), mode); err != nil {
			t.Fatal(err)
		}
	}
	before := found(t, env.dir)
	if p := env.run("pawl", "ls"); p.code != 0 {
		t.Errorf("ls: %+v", p)
	}
	if after := found(t, env.dir); !slices.Equal(before, after) {
		t.Errorf("ls has changed\n%v\ninto\n%v", before, after)
	}
	if p := env.run("pawl", "run", "x", "--", "true"); p.code != 0 {
		t.Fatalf("%+v", p)
	}
	for name, want := range map[string]fs.FileMode{"state": 0o700, "state/locks.db": 0o600, "state/locks.db-wal": 0o600} {
		if got := env.mode(name); got != want {
			t.Errorf("%s has the mode %o", name, got)
		}
	}
}

func TestALocalStoreOfSomebodyElseIsRefused(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("needs root, to be two users")
	}
	env := newTestEnv(t).with("PAWL_STORE=local:")
	if err := os.Mkdir(env.path("state"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(env.path("state"), 65534, 65534); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"run", "x", "--", "touch", "ran"}, {"ls"}} {
		if p := env.run("pawl", args...); p.code != 77 || !strings.Contains(p.err, "belongs to user 65534") || !strings.Contains(p.err, "chown -R 0 ") {
			t.Errorf("%v: %+v", args, p)
		}
	}
	if _, err := os.Stat(env.path("ran")); err == nil {
		t.Error("the command was run")
	}
}

// Root reads a user's store, in use and idle: no file may be created that belongs
// to root, because the user could not open it afterwards.
func TestRootsLookAtAUsersStoreLeavesNothing(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("needs root, to be two users")
	}
	env := newTestEnv(t)
	if err := os.Mkdir(env.path("store"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Dir(env.dir), 0o755); err != nil { // so that the user has access
		t.Fatal(err)
	}
	env = env.with("PAWL_STORE=sqlite://" + env.path("store/locks.db"))
	env.hold("x")
	theirs := func() {
		if err := filepath.WalkDir(env.path("store"), func(path string, _ fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			return os.Chown(path, 65534, 65534)
		}); err != nil {
			t.Fatal(err)
		}
	}
	look := func(when, want string) {
		t.Helper()
		theirs()
		before := found(t, env.path("store"))
		for _, args := range [][]string{{"ls"}, {"inspect", "x"}} {
			if p := env.run("pawl", args...); p.code != 0 || !strings.Contains(p.out, want) {
				t.Errorf("%v %s: %+v", args, when, p)
			}
		}
		if after := found(t, env.path("store")); !slices.Equal(before, after) {
			t.Errorf("%s: a look has changed\n%s\ninto\n%s", when, strings.Join(before, "\n"), strings.Join(after, "\n"))
		}
	}
	look("while it is held", "x")
	env.release("x")
	if p := env.run("pawl", "run", "x", "--", "true"); p.code != 0 { // waits for the end of the holder
		t.Fatalf("%+v", p)
	}
	look("when nobody is there", "")
	for _, side := range []string{"-wal", "-shm"} {
		_ = os.Remove(env.path("store/locks.db" + side)) // left by the last process that closes a long log
	}
	look("without log and shared memory", "")
	if p := env.run("pawl", "run", "x", "--", "true"); p.code != 0 {
		t.Fatalf("%+v", p)
	}
	for _, f := range found(t, env.path("store")) {
		if strings.HasSuffix(f, " 0") || strings.HasSuffix(f, " ") {
			t.Errorf("after root's lock there is a file of root's: %s", f)
		}
	}
}
