//go:build linux

// Package sqlite tests pawl's SQLite engine together with another SQLite library in
// the same process.
package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	_ "modernc.org/sqlite"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/sqllock/sqlite"
)

// The test binary also serves as another process: it counts the rows of a file.
const countEnv = "PAWL_E2E_COUNT"

func TestMain(m *testing.M) {
	path := os.Getenv(countEnv)
	if path == "" {
		os.Exit(m.Run())
	}
	n, err := count(path)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(n)
}

func count(path string) (n int, err error) {
	db, err := sql.Open("sqlite", path)
	if err != nil {
		return 0, err
	}
	defer db.Close()
	return n, db.QueryRow("SELECT count(*) FROM work").Scan(&n)
}

// counted returns how many rows another process sees.
func counted(t *testing.T, path string) string {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), countEnv+"="+path, "GORACE=atexit_sleep_ms=0") // otherwise it would exit a second late
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return strings.TrimSpace(string(out))
}

func execute(t *testing.T, db *sql.DB, statement string) {
	t.Helper()
	if _, err := db.Exec(statement); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

func open(t *testing.T, path string) *sqlite.Engine {
	t.Helper()
	e, err := sqlite.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// use locks, unlocks and lists: the engine has opened both its connections then.
func use(t *testing.T, e *sqlite.Engine) {
	t.Helper()
	c := pawl.New(e)
	defer c.Close()
	l, err := c.Mutex("job").Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range e.List(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Unlock(); err != nil {
		t.Error(err)
	}
}

func descriptors(t *testing.T, path string) (n int) {
	t.Helper()
	links, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, link := range links {
		if to, err := os.Readlink(link); err == nil && strings.HasPrefix(to, path) {
			n++
		}
	}
	return n
}

// When pawl closes a file, the kernel drops the locks that another library of the
// same process has on it. The next process to close the file would then remove its
// log, and the other library's commits into that log would be lost.
func TestRowsOfAnotherLibraryOutliveACloseOfPawl(t *testing.T) {
	path := filepath.Join(t.TempDir(), "app.db")
	e := open(t, path)
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	execute(t, db, "CREATE TABLE work (n)")
	execute(t, db, "CREATE TABLE big AS WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r WHERE i < 20000) SELECT i, hex(randomblob(20)) FROM r")
	rows, before := 0, 0
	for round := range 5 {
		use(t, e)
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
		for range 20 {
			execute(t, db, "INSERT INTO work VALUES (1)")
			rows++
		}
		if got := counted(t, path); got != fmt.Sprint(rows) {
			t.Fatalf("another process sees %s of %d rows that were committed", got, rows)
		}
		e = open(t, path)
		if now := descriptors(t, path); round > 0 && now > before {
			t.Errorf("%d descriptors after %d rounds, %d before", now, round+1, before)
		} else {
			before = now
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if n := descriptors(t, path); n != 0 {
		t.Errorf("%d descriptors are left when all is closed", n)
	}
	if got := counted(t, path); got != fmt.Sprint(rows) {
		t.Errorf("%s of %d rows are left", got, rows)
	}
}

func TestAFileThatAnotherLibraryHasOpenIsRefusedAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "app.db")
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	execute(t, db, "PRAGMA journal_mode = WAL")
	execute(t, db, "CREATE TABLE work (n)")
	execute(t, db, "INSERT INTO work VALUES (1)")
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if e, err := sqlite.Open(ctx, path); err == nil || !strings.Contains(err.Error(), "another SQLite library") || ctx.Err() != nil {
		if err == nil {
			e.Close()
		}
		t.Errorf("opened: %v", err)
	}
	execute(t, db, "INSERT INTO work VALUES (2)")
	if got := counted(t, path); got != "2" {
		t.Errorf("another process sees %s of 2 rows", got)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	e := open(t, path)
	use(t, e)
	if err := e.Close(); err != nil {
		t.Error(err)
	}
}
