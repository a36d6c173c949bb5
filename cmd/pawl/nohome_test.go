//go:build linux

package main

import (
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// A userWithoutHome is a user who is not in /etc/passwd, with a working folder.
type userWithoutHome struct {
	*testEnv
	uid    int
	binary string
	folder string // where its local store belongs
}

// newUserWithoutHome creates such a user. ok is false without root, which cannot
// change users then.
func newUserWithoutHome(t *testing.T) (n *userWithoutHome, ok bool) {
	if os.Getuid() != 0 {
		return nil, false
	}
	n = &userWithoutHome{testEnv: newTestEnv(t), uid: firstUnusedUID + rand.IntN(1<<29)}
	n.env = []string{"PATH=" + os.Getenv("PATH"), "GORACE=atexit_sleep_ms=0", "HOME=/"}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	n.binary = n.path("pawl")
	if err := exec.Command("cp", self, n.binary).Run(); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{filepath.Dir(n.dir), n.dir, n.binary} {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	n.folder = "/var/tmp/pawl-" + strconv.Itoa(n.uid)
	t.Cleanup(func() { _ = os.RemoveAll(n.folder) })
	return n, true
}

// as returns pawl as run by that user, with further variables.
func (n *userWithoutHome) as(uid int, vars []string, args ...string) *exec.Cmd {
	cmd := n.command(n.binary, args...)
	cmd.Args[0] = "pawl"
	cmd.Env = slices.Concat(n.env, vars)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
	return cmd
}

func (n *userWithoutHome) run(vars []string, args ...string) commandResult {
	n.t.Helper()
	cmd := n.as(n.uid, vars, args...)
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	return commandResult{code: exitOf(n.t, cmd.Run()), out: out.String(), err: errs.String()}
}

// For example an LDAP user with a static binary, or a container with an arbitrary
// user id: cron and a shell use the same store, whatever their environment.
func TestAUserWithoutAnEntryHasALocalStore(t *testing.T) {
	t.Parallel()
	n, ok := newUserWithoutHome(t)
	if !ok {
		return // only root can change users
	}
	if p := n.run(nil, "ls"); p.code != 0 {
		t.Errorf("ls before there is a store: %+v", p)
	}
	if _, err := os.Stat(n.folder); err == nil {
		t.Error("a look has made the store")
	}
	home := t.TempDir()
	if err := os.Chmod(filepath.Dir(home), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(home, n.uid, n.uid); err != nil {
		t.Fatal(err)
	}
	held := n.as(n.uid, nil, "run", "nightly", "--", "cat") // as from cron; ends when its input ends
	in, err := held.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	held.Stderr = t.Output()
	if err := held.Start(); err != nil {
		t.Fatal(err)
	}
	login := []string{"HOME=" + home, "USER=root", "LOGNAME=root", "XDG_STATE_HOME=" + home, "XDG_RUNTIME_DIR=" + home, "TMPDIR=" + home}
	var list commandResult
	if !eventually(func() bool { list = n.run(login, "ls"); return strings.Contains(list.out, "nightly ") }) {
		t.Fatalf("ls from a shell: %+v", list)
	}
	if who := strconv.Itoa(n.uid) + "@"; !strings.Contains(list.out, " "+who) {
		t.Errorf("the holder is not %s: %s", who, list.out)
	}
	if p := n.run(login, "run", "-n", "nightly", "--", "true"); p.code != 75 {
		t.Errorf("a shell takes the lock as well: %+v", p)
	}
	if p := n.run(login, "version", "-v"); !strings.Contains(p.out, "local: ("+n.folder+"/locks.db)") {
		t.Errorf("version -v: %+v", p)
	}
	_ = in.Close()
	if err := held.Wait(); err != nil {
		t.Error(err)
	}
	for path, mode := range map[string]os.FileMode{n.folder: 0o700, n.folder + "/locks.db": 0o600} {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if uid, _ := ownerOf(info); info.Mode().Perm() != mode || uid != n.uid {
			t.Errorf("%s: mode %o, user %d", path, info.Mode().Perm(), uid)
		}
	}
	if left, _ := os.ReadDir(home); len(left) > 0 {
		t.Errorf("in $HOME: %v", left)
	}
}

// The folder's name is predictable: if another user has created it, it is refused
// and nothing is created in it.
func TestAnotherCannotPrepareAStoreForAUserWithoutAnEntry(t *testing.T) {
	t.Parallel()
	for what, prepare := range map[string]func(n *userWithoutHome, trap string) error{
		"a folder":                func(n *userWithoutHome, _ string) error { return os.Mkdir(n.folder, 0o777) },
		"a file":                  func(n *userWithoutHome, _ string) error { return os.WriteFile(n.folder, nil, 0o666) },
		"a link to our own":       func(n *userWithoutHome, trap string) error { return os.Symlink(trap, n.folder) },
		"a link that leads to no": func(n *userWithoutHome, trap string) error { return os.Symlink(trap+"/none", n.folder) },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			n, ok := newUserWithoutHome(t)
			if !ok {
				return // only root can change users
			}
			trap := n.path("trap")
			if err := os.Mkdir(trap, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.Chown(trap, n.uid, n.uid); err != nil {
				t.Fatal(err)
			}
			if err := prepare(n, trap); err != nil {
				t.Fatal(err)
			}
			if err := os.Lchown(n.folder, n.uid+1, n.uid+1); err != nil {
				t.Fatal(err)
			}
			for _, args := range [][]string{{"ls"}, {"run", "x", "--", "echo", "ran"}, {"inspect", "x"}} {
				if p := n.run(nil, args...); p.code != 77 || p.out != "" || strings.Count(p.err, "\n") != 1 {
					t.Errorf("%v: %+v", args, p)
				}
			}
			if left, _ := os.ReadDir(trap); len(left) > 0 {
				t.Errorf("made behind it: %v", left)
			}
		})
	}
}

// If others could move the folder, or nothing is writable, there is no store.
func TestAUserWithoutAnEntryNeedsAFolderThatNobodyMoves(t *testing.T) {
	t.Parallel()
	n, ok := newUserWithoutHome(t)
	if !ok {
		return // only root can change users
	}
	if exec.Command("unshare", "--mount", "true").Run() != nil {
		return // root in a container that may not create namespaces
	}
	// In its own namespaces, as in a container: /var/tmp is not writable, and /tmp
	// is as each case says.
	for mode, want := range map[string]string{"1777": "ran\ncode 0\n", "0777": "name a store with -s, such as sqlite:///path\ncode 78\n"} {
		script := `exec 9<"$1" && mount -t tmpfs -o ro none /var/tmp && mount -t tmpfs -o mode=` + mode + ` none /tmp &&
			mkdir /tmp/bin && cp /proc/self/fd/9 /tmp/bin/pawl && chmod 755 /tmp/bin /tmp/bin/pawl && cd / || exit
			setpriv --reuid=$2 --regid=$2 --clear-groups /tmp/bin/pawl run x -- echo ran; echo "code $?"`
		cmd := n.command("unshare", "--mount", "sh", "-c", script, "sh", n.binary, strconv.Itoa(n.uid))
		cmd.Env = n.env
		out, _ := cmd.CombinedOutput()
		if !strings.HasSuffix(string(out), want) {
			t.Errorf("/tmp with mode %s: %s", mode, out)
		}
	}
}
