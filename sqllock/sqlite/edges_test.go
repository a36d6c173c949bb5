//go:build linux

package sqlite

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/stalltest"
)

func init() {
	// many holds 5000 names, the first of them "job".
	roles["many"] = func(args []string) error {
		e, err := roleHold(args[0], "job")
		if err != nil {
			return err
		}
		s, err := e.Open(context.Background(), driver.SessionOptions{ID: "many", TTL: time.Minute})
		if err != nil {
			return err
		}
		for i := range 5000 {
			c := driver.Claim{ID: fmt.Sprint("many", i), Try: 1, Name: fmt.Sprint("m", i), Need: 1, Limit: 1, Queue: true}
			if _, err := s.Enter(context.Background(), c); err != nil {
				return err
			}
		}
		fmt.Println("held")
		return idle()
	}
}

// A file is removed (a cleaner, an operator, a deployment) while it is in use, and
// another process opens the path anew: without a check both would hold, and the first
// would go on being told that it does, for as long as it lives.
func TestAHolderIsNotConfirmedInAFileThatWasReplaced(t *testing.T) {
	for about, suffixes := range map[string][]string{
		"file and log":           {"", "-wal", "-shm"},
		"only the log":           {"-wal", "-shm"},
		"only the shared memory": {"-shm"},
		"only the file":          {""},
	} {
		t.Run(about, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "pawl.db")
			ea, err := Open(t.Context(), path)
			if err != nil {
				t.Fatal(err)
			}
			defer ea.Close() // what it says of a file that is gone does not matter
			a := session(t, ea, time.Second)
			ca := mutex("a")
			if st := enter(t, a, ca); !st.Held {
				t.Fatal("not held")
			}
			for _, s := range suffixes {
				os.Remove(path + s)
			}
			eb, err := Open(t.Context(), path)
			if err != nil {
				return // refused: fine
			}
			defer eb.Close()
			cb := mutex("b")
			cb.Name = "other"
			if st, err := session(t, eb, time.Second).Enter(t.Context(), cb); err != nil || !st.Held {
				return // refused: fine
			}
			// b may hold, also what a holds; but then a must not be confirmed any more.
			var out [1]driver.Standing
			err = a.Beat(t.Context(), []driver.Claim{ca}, out[:])
			if err == nil && out[0].Valid > 0 {
				t.Errorf("the first was confirmed for %v in a file that nobody can open any more", out[0].Valid)
			}
			cb.ID = "c"
			if st, err := a.Enter(t.Context(), cb); err == nil {
				t.Errorf("new claims are still taken there, beside a holder: %+v", st)
			}
		})
	}
}

// What another process has written since the shared memory was removed must not be
// overwritten when the last process that does not see it closes the file.
func TestCloseAfterTheSharedMemoryWasRemovedKeepsWhatOthersWrote(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pawl.db")
	first, err := Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 50 { // more than keepSmallLog keeps
		if _, err := first.Store(t.Context(), fmt.Sprint("old", i), make([]byte, 8<<10), 0, 0); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Remove(path + "-shm"); err != nil {
		t.Fatal(err)
	}
	second, err := Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := second.Store(t.Context(), "charged", []byte("42"), 0, 0); err != nil {
		t.Fatal(err)
	}
	if err := second.Close(); err != nil {
		t.Fatal(err)
	}
	_ = first.Close() // what it says of a file that it does not see any more does not matter
	after := openFile(t, path)
	if value, _, err := after.Load(t.Context(), "charged"); err != nil || string(value) != "42" {
		t.Errorf("the record is %q, %v", value, err)
	}
	if err := after.clean(t); err != nil {
		t.Error(err)
	}
}

// Cleaners of temporary folders go by age, and nothing else changes the times of the
// shared memory in memory, or of a file whose log is short.
func TestFilesInUseDoNotLookOld(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pawl.db")
	e := openFile(t, path)
	s := session(t, e, time.Minute)
	enter(t, s, mutex("a"))
	files := []string{path, path + "-wal", path + "-shm", e.LiveFile().Name()}
	old := time.Now().Add(-1000 * time.Hour)
	for _, f := range files {
		if err := os.Chtimes(f, old, old); err != nil {
			t.Fatal(err)
		}
	}
	e.store.writer.touched = time.Time{}
	var out [1]driver.Standing
	if err := s.Beat(t.Context(), []driver.Claim{mutex("a")}, out[:]); err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if info, err := os.Stat(f); err != nil || time.Since(info.ModTime()) > time.Hour {
			t.Errorf("%s looks old: %v, %v", f, info.ModTime(), err)
		}
	}
}

// A folder of that name may be the user's. Opening the file must not delete in it.
func TestForeignFilesInTheLiveFolderAreLeftAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "site")
	if err := os.Mkdir(path+".live", 0o777); err != nil {
		t.Fatal(err)
	}
	precious := filepath.Join(path+".live", "Makefile")
	if err := os.WriteFile(precious, []byte("all:\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	openFile(t, path)
	if _, err := os.Stat(precious); err != nil {
		t.Error("Open deleted a file that is not ours:", err)
	}
}

// Two hard links of one file have two logs: both hold, and the file breaks.
func TestAFileWithSeveralNamesIsRefused(t *testing.T) {
	dir := t.TempDir()
	one, two := filepath.Join(dir, "one.db"), filepath.Join(dir, "two.db")
	a := session(t, openFile(t, one), time.Minute)
	if err := os.Link(one, two); err != nil {
		t.Fatal(err)
	}
	if st := enter(t, a, mutex("a")); !st.Held {
		t.Fatal("not held")
	}
	e, err := Open(t.Context(), two)
	if err != nil {
		return // refused: fine
	}
	defer e.Close()
	if st := enter(t, session(t, e, time.Minute), mutex("b")); st.Held {
		t.Error("held twice through two hard links of one file")
	}
}

// The contract: an engine must come back from every call soon after its ctx has ended.
func TestCallsEndWithTheirContext(t *testing.T) {
	const given, limit = 50 * time.Millisecond, 150 * time.Millisecond
	t.Run("Enter that meets a dead process with many names", func(t *testing.T) {
		stalltest.Within(t, limit, "Enter came back", func() time.Duration {
			path := filepath.Join(t.TempDir(), "pawl.db") // another each time: the names of the dead are the same
			s := session(t, openFile(t, path), time.Minute)
			many, _ := start(t, "many", path)
			kill(t, many)
			ctx, cancel := context.WithTimeout(t.Context(), given)
			defer cancel()
			from := time.Now()
			_, _ = s.Enter(ctx, mutex(fmt.Sprint("try", from.UnixNano())))
			return time.Since(from)
		})
	})
	t.Run("Close of a session with many claims", func(t *testing.T) {
		e := openFile(t, filepath.Join(t.TempDir(), "pawl.db"))
		stalltest.Within(t, limit, "Close came back", func() time.Duration {
			s := session(t, e, time.Minute)
			round := time.Now().UnixNano()
			for i := range 5000 {
				name := fmt.Sprint("c", round, "/", i)
				enter(t, s, driver.Claim{ID: name, Try: 1, Name: name, Need: 1, Limit: 1, Queue: true})
			}
			ctx, cancel := context.WithTimeout(t.Context(), given)
			defer cancel()
			from := time.Now()
			_ = s.Close(ctx)
			return time.Since(from)
		})
	})
}

// The file's content is 40 kB and the disk has fifteen times that. Taking and
// giving back one name must go on for ever.
func TestASmallDiskIsEnough(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("none", dir, "tmpfs", 0, "size=600k"); err != nil {
		t.Skipf("no small disk to be had: %v", err) // only root may mount
	}
	t.Cleanup(func() { syscall.Unmount(dir, syscall.MNT_DETACH) })
	e, err := Open(t.Context(), filepath.Join(dir, "pawl.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	s := session(t, e, time.Minute)
	for i := range 2000 {
		c := mutex(fmt.Sprint("id", i))
		_, err := s.Enter(t.Context(), c)
		if err == nil {
			err = s.Leave(t.Context(), c)
		}
		if err != nil {
			t.Fatalf("after %d times: %v", i, err)
		}
	}
}

// The library says "disk I/O error", whatever the reason.
func TestAFullDiskIsNamed(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("none", dir, "tmpfs", 0, "size=600k"); err != nil {
		t.Skipf("no small disk to be had: %v", err) // only root may mount
	}
	t.Cleanup(func() { syscall.Unmount(dir, syscall.MNT_DETACH) })
	path, filler := filepath.Join(dir, "pawl.db"), filepath.Join(dir, "filler")
	s := session(t, openFile(t, path), time.Minute)
	for f, err := os.Create(filler); err == nil; {
		if _, err = f.Write(make([]byte, 512)); err != nil {
			f.Close()
		}
	}
	var err error
	for i := 0; err == nil && i < 2000; i++ {
		_, err = s.Enter(t.Context(), driver.Claim{ID: fmt.Sprint(i), Try: 1, Name: fmt.Sprint("n", i), Need: 1, Limit: 1})
	}
	if !errors.Is(err, syscall.ENOSPC) || !errors.Is(err, driver.ErrUnreachable) {
		t.Errorf("a lock on a full disk: %v", err)
	}
	if _, err := Open(t.Context(), filepath.Join(dir, "other.db")); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("a new file on a full disk: %v", err)
	}
	os.Remove(filler)
	if _, err := s.Enter(t.Context(), mutex("again")); err != nil {
		t.Errorf("a lock once there is room: %v", err)
	}
}

// A later version has one column more: the old program must say so.
func TestNewerTablesAreRefusedByTheirVersion(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pawl.db")
	e := openFile(t, path)
	if err := e.store.writer.db.Exec("ALTER TABLE pawl_head ADD COLUMN more INTEGER NOT NULL DEFAULT 0; UPDATE pawl_meta SET schema = 2"); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), path); err == nil || !strings.Contains(err.Error(), "version 2") {
		t.Errorf("the error does not name the version: %v", err)
	}
}

// Another process keeps the file. Six goroutines try, with contexts that
// never end: all must be told that the store did not answer, also those who
// stood behind another for the connection.
func TestABusyFileIsAStoreThatDoesNotAnswer(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pawl.db")
	c := pawl.New(openFile(t, path), pawl.WithTTL(200*time.Millisecond))
	defer c.Close()
	writer, _ := start(t, "write", path)
	var wg sync.WaitGroup
	for i := range 6 {
		wg.Go(func() {
			_, err := c.Mutex(fmt.Sprint("n", i)).TryLock(context.Background())
			if !errors.Is(err, driver.ErrUnreachable) {
				t.Errorf("the caller's context has not ended, and the error is %q", err)
			}
		})
	}
	wg.Wait()
	kill(t, writer)
}

// "so that several users of one file do not meet"
func TestPrefixesOfPrefixesDoNotMeet(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pawl.db")
	a := session(t, openFile(t, path, WithPrefix("team")), time.Minute)
	b := session(t, openFile(t, path, WithPrefix("team2")), time.Minute)
	ca, cb := mutex("a"), mutex("b")
	ca.Name, cb.Name = "2x", "x"
	enter(t, a, ca)
	if st := enter(t, b, cb); !st.Held {
		t.Errorf("name %q behind %q is blocked by %q behind %q", "x", "team2", "2x", "team")
	}
}

// A '#' in the path of a URL that was not escaped.
func TestAFragmentOfAURLIsRefused(t *testing.T) {
	dir := t.TempDir()
	u, err := url.Parse("sqlite://" + dir + "/a#b")
	if err != nil {
		t.Fatal(err)
	}
	e, err := openURL(t.Context(), u)
	if err != nil {
		return // refused: fine
	}
	e.Close()
	t.Error(`"a#b" opened the file "a"`)
}

// The folder of liveness files was removed while its owner lives and holds;
// then one of another time namespace opens the file. "A file that is not there
// says nothing: its owner counts as alive until its claims expire."
func TestAnotherTimeNamespaceIsRefusedWithoutTheLiveFolder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pawl.db")
	a := session(t, openFile(t, path, withClock(bootedClock("one", "s1", 1e12))), time.Hour)
	if st := enter(t, a, mutex("a")); !st.Held {
		t.Fatal("not held")
	}
	os.RemoveAll(path + ".live")
	e, err := Open(t.Context(), path, withClock(bootedClock("one", "s2", 5e12)))
	if err != nil {
		return // refused: fine
	}
	defer e.Close()
	if st := enter(t, session(t, e, time.Hour), mutex("b")); st.Held {
		t.Error("two hold: the claims of a process that may be alive were cleared")
	}
}
