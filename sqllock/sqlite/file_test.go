package sqlite

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/sqllock/internal/sqlitefile"
)

func bootedClock(boot, space string, micros int64) *setClock {
	c := &setClock{id: boot, name: space}
	c.micros.Store(micros)
	return c
}

// copyFile copies a database with its log, as a machine that was cut off leaves it.
func copyFile(t *testing.T, from, to string) {
	t.Helper()
	for _, suffix := range []string{"", "-wal"} {
		b, err := os.ReadFile(from + suffix)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to+suffix, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestRestartOfTheMachineFreesEverythingAndTokensGrow(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	before, after := filepath.Join(dir, "before.db"), filepath.Join(dir, "after.db")
	e := openFile(t, before, withClock(bootedClock("one", "s", 1e9)))
	s := session(t, e, time.Hour)
	held := enter(t, s, mutex("x"))
	reader := driver.Claim{ID: "r", Try: 1, Name: "shared", Need: 1, Limit: driver.All, Queue: true}
	enter(t, s, reader)
	enter(t, s, mutex("waits"))
	version, err := e.Store(t.Context(), "kept", []byte("value"), 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	copyFile(t, before, after)

	e = openFile(t, after, withClock(bootedClock("two", "s", 1)))
	for x, err := range e.List(t.Context(), "") {
		t.Errorf("listed after the restart: %+v, %v", x, err)
	}
	c := mutex("y")
	c.Queue = false
	st := enter(t, session(t, e, time.Minute), c)
	if !st.Held || st.Token <= held.Token || st.Token <= version {
		t.Errorf("after the restart: %+v; the token before was %d, the last number %d", st, held.Token, version)
	}
	if value, got, err := e.Load(t.Context(), "kept"); string(value) != "value" || got != version || err != nil {
		t.Errorf("record after the restart: %q, %d, %v", value, got, err)
	}
}

// A power cut loses the end of the log, and with it the last tokens given out:
// after the restart the counter is behind. The boot clock starts at zero, so only
// the wall clock can keep the tokens growing.
func TestAPowerCutThatLosesTheEndOfTheLogRepeatsNoToken(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	before, after := filepath.Join(dir, "before.db"), filepath.Join(dir, "after.db")
	ck := bootedClock("one", "s", 1e12)
	ck.walls.Store(1_800_000_000_000_000)
	e := openFile(t, before, withClock(ck))
	s := session(t, e, time.Hour)
	enter(t, s, mutex("synced"))
	copyFile(t, before, after)
	ck.walls.Add(1000)
	lost := driver.Claim{ID: "lost", Try: 1, Name: "other", Need: 1, Limit: 1}
	given := enter(t, s, lost)

	next := bootedClock("two", "s", 1)
	next.walls.Store(ck.walls.Load() + 1_000_000) // the machine took a second to start
	e = openFile(t, after, withClock(next))
	lost.ID = "later"
	if st := enter(t, session(t, e, time.Minute), lost); !st.Held || st.Token <= given.Token {
		t.Errorf("token %d after the restart, %d was given out before", st.Token, given.Token)
	}
}

func TestFileThatIsNoDatabaseIsLeftAlone(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "notes.txt")
	text := strings.Repeat("these are notes and not a database\n", 100)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Open(t.Context(), path)
	if err == nil || !strings.Contains(err.Error(), "not a database") || errors.Is(err, driver.ErrUnreachable) {
		t.Errorf("opened: %v", err)
	}
	if b, _ := os.ReadFile(path); string(b) != text {
		t.Error("the file was changed")
	}
	if files, _ := os.ReadDir(filepath.Dir(path)); len(files) != 1 {
		t.Errorf("left beside it: %v", files)
	}
}

func TestFolderWithoutTheRightToWriteIsDenied(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "closed")
	if err := os.Mkdir(dir, 0o500); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 {
		if runtime.GOOS != "linux" {
			t.Skip("root may write everywhere")
		}
		dir = "/sys" // where even root may not
	}
	if e, err := Open(t.Context(), filepath.Join(dir, "pawl.db")); !errors.Is(err, driver.ErrDenied) {
		if err == nil {
			e.Close()
		}
		t.Errorf("opened in a folder without the right to write: %v", err)
	}
	if _, err := Open(t.Context(), filepath.Join(t.TempDir(), "missing", "pawl.db")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("opened in a folder that is not there: %v", err)
	}
}

func TestBeatOfAThousandClaims(t *testing.T) {
	t.Parallel()
	e := openFile(t, filepath.Join(t.TempDir(), "pawl.db"))
	s := session(t, e, time.Minute)
	live := make([]driver.Claim, 1000)
	for i := range live {
		live[i] = driver.Claim{ID: fmt.Sprintf("%032x", i), Try: 1, Name: fmt.Sprint("n", i), Need: 1, Limit: 1 + i%2, Queue: true}
		enter(t, s, live[i])
	}
	for _, i := range []int{7, 501, 999} {
		if err := s.Leave(t.Context(), live[i]); err != nil {
			t.Fatal(err)
		}
	}
	out := make([]driver.Standing, len(live))
	from := time.Now()
	if err := s.Beat(t.Context(), live, out); err != nil {
		t.Fatal(err)
	}
	t.Logf("1000 claims beaten in %v", time.Since(from))
	for i, st := range out {
		if left := i == 7 || i == 501 || i == 999; st.Gone != left || st.Held == left || (st.Valid == time.Minute) == left {
			t.Errorf("claim %d: %+v", i, st)
		}
	}
	// Engine.Close allows five seconds, which the race detector on a busy machine
	// can use up.
	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestIdleNamesAndEndedRecordsAreSwept(t *testing.T) {
	t.Parallel()
	ck := bootedClock("boot", "s", 1)
	e := openFile(t, filepath.Join(t.TempDir(), "pawl.db"), withClock(ck))
	s := session(t, e, time.Minute)
	for i := range 30 {
		c := driver.Claim{ID: fmt.Sprintf("%032x", i), Try: 1, Name: fmt.Sprint("idle", i), Need: 1, Limit: 1 + i%2, Queue: true}
		enter(t, s, c)
		if i%3 > 0 { // the others expire
			if err := s.Leave(t.Context(), c); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := e.Store(t.Context(), "ended", []byte{}, 0, time.Nanosecond); err != nil {
		t.Fatal(err)
	}
	ck.micros.Add(time.Hour.Microseconds() + time.Minute.Microseconds() + 5)
	ck.walls.Add(5)
	enter(t, session(t, e, 10*time.Hour), mutex("busy"))
	for range 2 { // expired shared claims are ended in the first round, their names an hour later
		if err := e.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		ck.micros.Add(time.Hour.Microseconds() + 5)
	}
	if got := e.text(t, "SELECT group_concat(name) FROM pawl_head WHERE name <> ''"); got != "job" {
		t.Errorf("names left: %s", got)
	}
	if got := e.text(t, "SELECT count(*) FROM pawl_record"); got != "0" {
		t.Errorf("%s ended records left", got)
	}
}

func TestNetworkFileSystemsAreRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if kind, err := sqlitefile.NetworkKind(dir); kind != "" || err != nil {
		t.Skipf("the temporary folder itself is on %s (%v)", kind, err)
	}
	err := error(&sqlitefile.NetworkError{Path: "/mnt/pawl.db", Kind: "NFS"})
	if !strings.Contains(err.Error(), "NFS") || !strings.Contains(err.Error(), "local disk") {
		t.Errorf("the error does not say what to do: %v", err)
	}
}

func TestURLs(t *testing.T) {
	t.Chdir(t.TempDir())
	for raw, want := range map[string]string{
		"sqlite:rel.db":                       "",
		"sqlite:" + t.TempDir() + "/a%20b.db": "",
		"sqlite:///tmp/x.db?ttl=3s":           "known: prefix",
		"sqlite://host/x.db":                  "host",
		"sqlite:":                             "no path",
		"sqlite:x.db?network=yes":             "not one of refuse, allow",
		"sqlite:rel.db?prefix=team%2F":        "",
	} {
		u, err := url.Parse(raw)
		if err != nil {
			t.Fatal(err)
		}
		e, err := openURL(context.Background(), u)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v", raw, err)
		}
		if err == nil {
			e.Close()
		}
	}
	if _, err := os.Stat("rel.db"); err != nil {
		t.Error(err)
	}
}

func TestPrefixesDoNotMeet(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "pawl.db")
	a, b := openFile(t, path, WithPrefix("a/")), openFile(t, path, WithPrefix("b/"))
	if st := enter(t, session(t, a, time.Minute), mutex("x")); !st.Held {
		t.Fatal("not held")
	}
	if st := enter(t, session(t, b, time.Minute), mutex("y")); !st.Held {
		t.Error("a name behind another prefix is in the way")
	}
	n := 0
	for x, err := range b.List(t.Context(), "") {
		if n++; err != nil || x.Name != "job" || x.ID != "y" {
			t.Errorf("listed: %+v, %v", x, err)
		}
	}
	if n != 1 {
		t.Errorf("%d listed", n)
	}
}

func TestRepeatedEnterAllThatIsRefusedLeavesNothing(t *testing.T) {
	t.Parallel()
	e := openFile(t, filepath.Join(t.TempDir(), "pawl.db"))
	s, rival := session(t, e, time.Minute), session(t, e, time.Minute)
	all := []driver.Claim{mutex("a"), mutex("b")}
	all[0].Name, all[1].Name = "one", "two"
	all[0].Queue, all[1].Queue = false, false
	out, err := s.(driver.Multi).EnterAll(t.Context(), all)
	if err != nil || !out[0].Held || !out[1].Held {
		t.Fatal(out, err)
	}
	// The answer was lost; meanwhile an operator broke one claim and a rival came.
	for x, err := range e.List(t.Context(), "two") {
		if err != nil || e.Evict(t.Context(), x) != nil {
			t.Fatal(err)
		}
	}
	c := mutex("r")
	c.Name = "two"
	enter(t, rival, c)
	out, err = s.(driver.Multi).EnterAll(t.Context(), all)
	if err != nil || out[0].Held || out[1].Held {
		t.Fatalf("all or none: %+v, %v", out, err)
	}
	for x := range e.List(t.Context(), "") {
		if x.ID != "r" {
			t.Errorf("%s stays on %s", x.ID, x.Name)
		}
	}
}
