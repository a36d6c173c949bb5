package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
)

func init() {
	// as plays a role as another user: as UID ROLE ARGS...
	roles["as"] = func(args []string) error {
		uid, err := strconv.Atoi(args[0])
		if err != nil {
			return err
		}
		if err := errors.Join(syscall.Setgroups(nil), syscall.Setgid(uid), syscall.Setuid(uid)); err != nil {
			return err
		}
		return roles[args[1]](args[2:])
	}
}

// traces are the files of a folder, with owner, mode, size, time of change and
// content: what must be the same after somebody has only looked. What is in the
// shared memory is not the file's: whoever reads marks his place there.
func traces(t *testing.T, dir string) (all []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		st := info.Sys().(*syscall.Stat_t)
		line := fmt.Sprint(path, " ", info.Mode(), " ", st.Uid, ":", st.Gid)
		if d.Type().IsRegular() && !strings.HasSuffix(path, "-shm") { // a socket cannot be opened
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			line += fmt.Sprintf(" %v %x", info.ModTime(), b)
		}
		all = append(all, line)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func unchanged(t *testing.T, dir string, before []string) {
	t.Helper()
	if after := traces(t, dir); !slices.Equal(before, after) {
		short := func(all []string) (out []string) {
			for _, l := range all {
				out = append(out, l[:min(len(l), 160)])
			}
			return out
		}
		t.Errorf("a read-only engine has changed\n%s\ninto\n%s", strings.Join(short(before), "\n"), strings.Join(short(after), "\n"))
	}
}

func listed(t *testing.T, e *Engine) (names []string) {
	t.Helper()
	for x, err := range e.List(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, fmt.Sprint(x.Name, " ", x.Held))
		line, err := e.Line(t.Context(), x.Name)
		if err != nil || len(line) == 0 {
			t.Errorf("the line of %q: %v, %v", x.Name, line, err)
		}
	}
	return names
}

func TestAReadOnlyEngineChangesNothing(t *testing.T) {
	t.Parallel()
	look := func(t *testing.T, path string, want ...string) *Engine {
		t.Helper()
		before := traces(t, filepath.Dir(path))
		e := openFile(t, path, WithReadOnly())
		if got := listed(t, e); !slices.Equal(got, want) {
			t.Errorf("listed: %v, want %v", got, want)
		}
		unchanged(t, filepath.Dir(path), before)
		return e
	}
	t.Run("while a holder is there", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "pawl.db")
		e := openFile(t, path)
		s := session(t, e, time.Hour)
		enter(t, s, mutex("a"))
		enter(t, s, mutex("b"))
		v := look(t, path, "job true", "job false")
		// It sees what comes, and what goes.
		if err := s.Leave(t.Context(), mutex("a")); err != nil {
			t.Fatal(err)
		}
		if got := listed(t, v); !slices.Equal(got, []string{"job true"}) {
			t.Errorf("after one has left: %v", got)
		}
		if _, err := session(t, v, time.Minute).Enter(t.Context(), mutex("c")); !errors.Is(err, driver.ErrDenied) {
			t.Errorf("locked: %v", err)
		}
	})
	t.Run("when the holder was killed", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "pawl.db")
		holder, _ := start(t, "hold", path, "job")
		kill(t, holder)
		look(t, path)
	})
	t.Run("when the holder was killed and another process is there", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "pawl.db")
		enter(t, session(t, openFile(t, path), time.Hour), driver.Claim{ID: "o", Try: 1, Name: "other", Need: 1, Limit: 1})
		holder, _ := start(t, "hold", path, "job")
		kill(t, holder)
		look(t, path, "other true")
	})
	t.Run("when the holder was killed and its command lives", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "pawl.db")
		wrapper, said := start(t, "wrap", path, "job")
		var pid int
		if _, err := fmt.Sscanf(said, "held by %d", &pid); err != nil {
			t.Fatal(said)
		}
		t.Cleanup(func() { syscall.Kill(pid, syscall.SIGKILL) })
		kill(t, wrapper)
		v := look(t, path, "job true")
		// One who comes then is seen too.
		enter(t, session(t, openFile(t, path), time.Hour), driver.Claim{ID: "o", Try: 1, Name: "other", Need: 1, Limit: 1})
		if got := listed(t, v); !slices.Equal(got, []string{"job true", "other true"}) {
			t.Errorf("after another process opened the file: %v", got)
		}
	})
	t.Run("without log and shared memory", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "pawl.db")
		e, err := Open(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := e.Store(t.Context(), "kept", []byte("value"), 0, 0); err != nil {
			t.Fatal(err)
		}
		if _, _, err := e.store.writer.db.WALCheckpoint("main", 3); err != nil {
			t.Fatal(err)
		}
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
		os.Remove(path + "-wal")
		os.Remove(path + "-shm")
		v := look(t, path)
		if value, _, err := v.Load(t.Context(), "kept"); string(value) != "value" || err != nil {
			t.Errorf("the record is %q, %v", value, err)
		}
	})
	t.Run("after a restart of the machine", func(t *testing.T) {
		dir := t.TempDir()
		before, after := filepath.Join(t.TempDir(), "before.db"), filepath.Join(dir, "after.db")
		enter(t, session(t, openFile(t, before, withClock(bootedClock("one", "s", 1e9))), time.Hour), mutex("x"))
		copyFile(t, before, after)
		was := traces(t, dir)
		e := openFile(t, after, WithReadOnly(), withClock(bootedClock("two", "s", 1)))
		if got := listed(t, e); len(got) != 0 {
			t.Errorf("listed: %v", got)
		}
		unchanged(t, dir, was)
	})
}

func TestAReadOnlyEngineMakesNoFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if _, err := Open(t.Context(), filepath.Join(dir, "tpyo.db"), WithReadOnly()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("opened a file that is not there: %v", err)
	}
	if files, _ := os.ReadDir(dir); len(files) != 0 {
		t.Errorf("made: %v", files)
	}
	path := writeFile(t, filepath.Join(dir, "empty.db"), "")
	if _, err := Open(t.Context(), path, WithReadOnly()); err == nil || !strings.Contains(err.Error(), "no tables") {
		t.Errorf("opened a file without tables: %v", err)
	}
	if files, _ := os.ReadDir(dir); len(files) != 1 {
		t.Errorf("made: %v", files)
	}
}

// Root locks in a user's file: what is made beside it must be the user's, who is
// locked out otherwise.
func TestWhatRootMakesBesideAUsersFileIsTheUsers(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("needs root, to be two users")
	}
	const user = 65534
	dir := t.TempDir()
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil {
		t.Fatal(err)
	}
	path := writeFile(t, filepath.Join(dir, "pawl.db"), "")
	for _, p := range []string{dir, path} {
		if err := os.Chown(p, user, user); err != nil {
			t.Fatal(err)
		}
	}
	e := openFile(t, path)
	s := session(t, e, time.Hour)
	if st := enter(t, s, mutex("root")); !st.Held {
		t.Fatal("not held")
	}
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, _ error) error {
		info, err := os.Lstat(path)
		if err == nil && info.Sys().(*syscall.Stat_t).Uid != user {
			t.Errorf("%s is of user %d", path, info.Sys().(*syscall.Stat_t).Uid)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	as := fmt.Sprint(user)
	if _, said := start(t, "as", as, "try", path, "job"); said != "busy" {
		t.Errorf("the user, while root holds: %s", said)
	}
	if err := s.Leave(context.Background(), mutex("root")); err != nil {
		t.Fatal(err)
	}
	if _, said := start(t, "as", as, "try", path, "job"); said != "held" {
		t.Errorf("the user, after root: %s", said)
	}
}
