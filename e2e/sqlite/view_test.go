//go:build linux

package sqlite

import (
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-go/pawl/sqllock/sqlite"
)

// posixLocks returns this process's POSIX locks on a file and its shared memory, as
// reported by the kernel.
func posixLocks(t *testing.T, path string) (locks []string) {
	t.Helper()
	links, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, link := range links {
		to, err := os.Readlink(link)
		if err != nil || to != path && to != path+"-shm" {
			continue
		}
		info, err := os.ReadFile("/proc/self/fdinfo/" + filepath.Base(link))
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(info)) {
			if _, lock, ok := strings.Cut(line, " POSIX "); ok {
				locks = append(locks, filepath.Base(to)+": "+strings.Join(strings.Fields(lock), " "))
			}
		}
	}
	slices.Sort(locks)
	return locks
}

func list(t *testing.T, e *sqlite.Engine) (names []string, err error) {
	t.Helper()
	for x, err := range e.List(t.Context(), "") {
		if err != nil {
			return nil, err
		}
		names = append(names, x.Name)
	}
	return names, nil
}

// A read-only engine on a file that nobody has open reads a copy, and has no lock
// on the file. To notice that the file was opened, it must not open and close it,
// because another library of this process may be the one that opened it.
func TestWhoOnlyLooksLeavesTheLocksOfAnotherLibrary(t *testing.T) {
	path := filepath.Join(t.TempDir(), "app.db")
	e := open(t, path)
	use(t, e)
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	v, err := sqlite.Open(t.Context(), path, sqlite.WithReadOnly())
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	if _, err := list(t, v); err != nil {
		t.Fatal(err)
	}

	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	execute(t, db, "CREATE TABLE work (n)")
	before, rows := posixLocks(t, path), 0
	for _, file := range []string{"app.db: ", "app.db-shm: "} {
		if !slices.ContainsFunc(before, func(l string) bool { return strings.HasPrefix(l, file) }) {
			t.Fatalf("the other library's locks are %q: none on %s", before, file)
		}
	}
	kept := func(after string) {
		t.Helper()
		if now := posixLocks(t, path); !slices.Equal(now, before) {
			t.Errorf("after %s the other library's locks are %q, were %q", after, now, before)
		}
		// Another process that opens and closes the file removes the log if nobody
		// has a lock.
		counted(t, path)
		execute(t, db, "INSERT INTO work VALUES (1)")
		rows++
		if got := counted(t, path); got != fmt.Sprint(rows) {
			t.Errorf("after %s another process sees %s of %d rows that were committed", after, got, rows)
		}
	}
	descriptorsBefore := descriptors(t, path)
	for range 3 {
		if names, err := list(t, v); err == nil || !strings.Contains(err.Error(), "another SQLite library") {
			t.Errorf("listed: %q, %v", names, err)
		}
		kept("a List")
		if line, err := v.Line(t.Context(), "job"); err == nil || !strings.Contains(err.Error(), "another SQLite library") {
			t.Errorf("the line: %v, %v", line, err)
		}
		kept("a Line")
	}
	if n := descriptors(t, path); n != descriptorsBefore {
		t.Errorf("%d descriptors after the looks, %d before", n, descriptorsBefore)
	}

	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := list(t, v); err != nil {
		t.Errorf("when the other has closed the file: %v", err)
	}
	if err := v.Close(); err != nil {
		t.Error(err)
	}
	if n := descriptors(t, path); n != 0 {
		t.Errorf("%d descriptors are left when all is closed", n)
	}
}

// Copying a large file takes a while, during which another library of this process
// may open it.
func TestACopyUnderWayLeavesTheLocksOfAnotherLibrary(t *testing.T) {
	path := filepath.Join(t.TempDir(), "app.db")
	e := open(t, path)
	use(t, e)
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, 16<<20); err != nil { // SQLite uses the size in its header
		t.Fatal(err)
	}
	opened := make(chan error)
	go func() { // ends with the test, which waits for its answer
		v, err := sqlite.Open(t.Context(), path, sqlite.WithReadOnly())
		if err == nil {
			err = v.Close()
		}
		opened <- err
	}()
	for deadline := time.Now().Add(time.Minute); descriptors(t, path) == 0; {
		if time.Now().After(deadline) {
			t.Fatal("the file was not opened to be copied")
		}
	}
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	execute(t, db, "CREATE TABLE work (n)")
	before, had := posixLocks(t, path), descriptors(t, path)
	if err := <-opened; err == nil || !strings.Contains(err.Error(), "another SQLite library") {
		t.Errorf("opened: %v", err)
	}
	if now := posixLocks(t, path); len(before) < 2 || !slices.Equal(now, before) {
		t.Errorf("the other library's locks are %q, were %q while %d descriptors were open", now, before, had)
	}
	// The file that is kept open has no lock of its own, which would block the
	// other library.
	execute(t, db, "PRAGMA journal_mode = DELETE")
	execute(t, db, "INSERT INTO work VALUES (1)")
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	e = open(t, path)
	use(t, e)
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	if n := descriptors(t, path); n != 0 {
		t.Errorf("%d descriptors are left when all is closed", n)
	}
}
