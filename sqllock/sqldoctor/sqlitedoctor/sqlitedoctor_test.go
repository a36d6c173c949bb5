package sqlitedoctor

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ncruces/go-sqlite3"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/doctor"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/doctortest"
	"github.com/pawl-go/pawl/sqllock/sqldoctor/internal/examtest"
)

// newPath returns a path for a file, in a folder that every user can reach.
func newPath(t *testing.T) string { t.Helper(); return newPathIn(t, "") }

func newPathIn(t *testing.T, parent string) string {
	t.Helper()
	dir, err := os.MkdirTemp(parent, "pawl-doctor-") // not t.TempDir, which other users cannot reach
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return filepath.Join(dir, "locks.db")
}

// newStore returns the path of a file in which something was locked.
func newStore(t *testing.T) string {
	t.Helper()
	path := newPath(t)
	lock(t, path)()
	return path
}

// lock takes a lock in a file.
func lock(t *testing.T, path string) (end func()) {
	t.Helper()
	c, err := pawl.Open(t.Context(), "sqlite://"+path)
	if err != nil {
		t.Fatal(err)
	}
	l, err := c.Mutex("held").Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := errors.Join(l.Unlock(), c.Close()); err != nil {
			t.Error(err)
		}
	}
}

// openDB opens a file as another program does.
func openDB(t *testing.T, path string, statements ...string) *sqlite3.Conn {
	t.Helper()
	db, err := sqlite3.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	for _, text := range statements {
		if err := db.Exec(text); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	}
	return db
}

// run runs a line in a shell.
func run(t *testing.T, line string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), "sh", "-ec", line).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", line, err, out)
	}
}

// named returns the URL of a mend, with a path of the test in the place of the one that
// stands for it.
func named(t *testing.T, mend, example, path string) string {
	t.Helper()
	if mend != "-s 'sqlite://"+example+"'" {
		t.Errorf("%s does not name %s", mend, example)
	}
	return "sqlite://" + path
}

// here are checks whose finding depends on where the temporary folder is.
const here = "file system"

func TestAGoodFileIsClean(t *testing.T) {
	t.Parallel()
	path := newPath(t)
	examtest.Clean(t, "sqlite://"+path, here)
	if _, err := os.Stat(path); err == nil {
		t.Error("the examination made the file")
	}
	end := lock(t, path)
	examtest.Clean(t, "sqlite://"+path, here)
	end()
	examtest.Clean(t, "sqlite://"+path, here)
	link := filepath.Join(filepath.Dir(path), "link.db")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	examtest.Clean(t, "sqlite://"+link, here)
	examtest.Expect(t, "sqlite://"+link, "path", doctor.OK, path+", to which "+link+" leads", "")
}

func TestAnExaminationChangesNothing(t *testing.T) {
	t.Parallel()
	path := newStore(t)
	before := dump(t, path)
	doctortest.Examine(t, "sqlite://"+path)
	if after := dump(t, path); after != before || !strings.Contains(before, "locks.db") {
		t.Errorf("a file that no process uses: before\n%s\nafter\n%s", before, after)
	}
	defer lock(t, path)()
	before = dump(t, path)
	doctortest.Examine(t, "sqlite://"+path)
	if after := dump(t, path); after != before || !strings.Contains(before, "locks.db-wal") {
		t.Errorf("a file in use: before\n%s\nafter\n%s", before, after)
	}
}

// dump writes down all files beside path, with their contents. Those of the shared memory
// are the locks of readers.
func dump(t *testing.T, path string) string {
	t.Helper()
	var all []string
	err := filepath.WalkDir(filepath.Dir(path), func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		text := fmt.Sprintln(p, info.Mode())
		if info.Mode().IsRegular() && !strings.HasSuffix(p, "-shm") { // a socket cannot be opened
			data, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			text = fmt.Sprintln(p, info.Mode(), info.Size(), info.ModTime(), sha256.Sum256(data))
		}
		all = append(all, text)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(all, "")
}

func TestAPathThatIsNoFileIsBroken(t *testing.T) {
	t.Parallel()
	path := newStore(t)
	dir := filepath.Dir(path)
	missing := filepath.Join(dir, "a folder", "locks.db")
	run(t, examtest.Expect(t, "sqlite://"+strings.ReplaceAll(missing, " ", "%20"), "path", doctor.Broken, "there is no folder", "No lock can be taken"))
	doctortest.Applied("path")
	examtest.Expect(t, "sqlite://"+strings.ReplaceAll(missing, " ", "%20"), "path", doctor.OK, "is made by the first lock", "")
	examtest.Expect(t, "sqlite://"+dir, "path", doctor.Broken, "is not a regular file", "No lock can be taken")
	examtest.Expect(t, "sqlite://"+path+"/locks.db", "path", doctor.Broken, "", "No lock can be taken")

	second := filepath.Join(dir, "second.db")
	if err := os.Link(path, second); err != nil {
		t.Skip(err)
	}
	examtest.Expect(t, "sqlite://"+path, "path", doctor.Broken, "several names", "pawl refuses the file")
	if err := os.Remove(second); err != nil {
		t.Fatal(err)
	}
	examtest.Clean(t, "sqlite://"+path, here)
}

func TestAFileOfOtherContentIsBroken(t *testing.T) {
	t.Parallel()
	path := newPath(t)
	if err := os.WriteFile(path, []byte(strings.Repeat("This is a text and no database. ", 200)), 0o644); err != nil {
		t.Fatal(err)
	}
	before := doctortest.Examine(t, "sqlite://"+path)
	mend := expect(t, before, "tables", doctor.Broken, "is not a SQLite database", "No lock can be taken in it")
	doctortest.Mended(t, before, doctortest.Examine(t, named(t, mend, "/another/path", newStore(t))), "tables", "", here)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	openDB(t, path, "CREATE TABLE song (text TEXT)").Close()
	examtest.Expect(t, "sqlite://"+path, "tables", doctor.OK, "none yet", "")
	lock(t, path)()
	examtest.Expect(t, "sqlite://"+path, "tables", doctor.OK, "of version 1, beside 1 tables of other programs", "")
	for version, mend := range map[string]string{"-1": "another/path", "7": "go install"} {
		openDB(t, path, "UPDATE pawl_meta SET schema = "+version).Close()
		got := examtest.Expect(t, "sqlite://"+path, "tables", doctor.Broken, "of version "+version+", this program knows version 1", "refuses")
		if !strings.Contains(got, mend) {
			t.Errorf("version %s: %s", version, got)
		}
	}
}

func TestACorruptFileIsBroken(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("sqlite3"); err != nil {
		t.Skip(err)
	}
	path := newStore(t)
	db := openDB(t, path)
	for i := range 200 {
		if err := db.Exec(fmt.Sprintf("INSERT INTO pawl_record VALUES ('r%d', 1, zeroblob(3000), 0)", i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(db.Exec("PRAGMA wal_checkpoint(TRUNCATE)"), db.Close()); err != nil {
		t.Fatal(err)
	}
	examtest.Clean(t, "sqlite://"+path, here)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for page := 20 * 4096; page < 60*4096; page += 4096 { // as a disk that lost writes has them
		copy(data[page:page+2000], strings.Repeat("\xff", 2000))
	}
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
	before := doctortest.Examine(t, "sqlite://"+path)
	run(t, expect(t, before, "integrity", doctor.Broken, "pawl_record", "Locks fail"))
	doctortest.Mended(t, before, doctortest.Examine(t, "sqlite://"+path), "integrity", "", here)
}

func TestAnotherJournalModeIsAWarning(t *testing.T) {
	t.Parallel()
	path := newStore(t)
	openDB(t, path, "PRAGMA journal_mode = DELETE").Close()
	mend := examtest.Expect(t, "sqlite://"+path, "journal mode", doctor.Warning, "it is delete", "Another program has changed it")
	doctortest.Applied("journal mode")
	statement := mend[strings.Index(mend, "'")+1 : len(mend)-1]
	openDB(t, path, statement).Close()
	examtest.Expect(t, "sqlite://"+path, "journal mode", doctor.OK, "wal", "")
}

func TestALogThatAReaderKeepsIsAWarning(t *testing.T) {
	t.Parallel()
	path := newStore(t)
	reader := openDB(t, path, "CREATE TABLE app (data BLOB)", "BEGIN", "SELECT count(*) FROM app")
	writer := openDB(t, path)
	for range 34 {
		if err := writer.Exec("INSERT INTO app VALUES (zeroblob(1048576))"); err != nil {
			t.Fatal(err)
		}
	}
	mend := examtest.Expect(t, "sqlite://"+path, "log", doctor.Warning, "MB", "reads for long")
	if err := reader.Exec("COMMIT"); err != nil {
		t.Fatal(err)
	}
	doctortest.Applied("log")
	if err := writer.Exec(mend[strings.Index(mend, "'")+1 : len(mend)-1]); err != nil {
		t.Fatal(err)
	}
	examtest.Expect(t, "sqlite://"+path, "log", doctor.OK, "0 KB", "")
}

func TestAFileThatAnotherProgramKeepsLockedIsBroken(t *testing.T) {
	t.Parallel()
	path := newStore(t)
	other := openDB(t, path, "PRAGMA locking_mode = EXCLUSIVE", "BEGIN EXCLUSIVE", "COMMIT")
	examtest.Expect(t, "sqlite://"+path, "use", doctor.Broken, "keeps the file locked", "until that program lets the file go")
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	examtest.Expect(t, "sqlite://"+path, "use", doctor.OK, "", "")
}

func TestAFileInThePlaceOfTheLivenessFolderIsBroken(t *testing.T) {
	t.Parallel()
	path := newStore(t)
	if err := os.WriteFile(path+".live", nil, 0o644); err != nil {
		t.Fatal(err)
	}
	run(t, examtest.Expect(t, "sqlite://"+path, "use", doctor.Broken, "locks.db.live is not a folder", "each process keeps a file"))
	doctortest.Applied("use")
	examtest.Clean(t, "sqlite://"+path, here)
}

func TestABadURLIsAnErrorWithoutThePassword(t *testing.T) {
	t.Parallel()
	for _, store := range []string{"sqlite://u:c4n4ry@h/x", "sqlite:", "sqlite:///x?colour=c4n4ry"} {
		_, err := doctor.Examine(t.Context(), store)
		if !errors.Is(err, driver.ErrURL) || strings.Contains(err.Error(), "c4n4ry") {
			t.Errorf("%s: %v", store, err)
		}
	}
}

// expect compares the finding of a check.
func expect(t *testing.T, found []doctor.Finding, check string, level doctor.Level, says, meaning string) (mend string) {
	t.Helper()
	return examtest.Compare(t, doctortest.Find(t, found, check, ""), level, says, meaning)
}

// decode reads findings that another process has written.
func decode(t *testing.T, data []byte) (found []doctor.Finding) {
	t.Helper()
	if err := json.Unmarshal(data, &found); err != nil {
		t.Fatalf("%v: %s", err, data)
	}
	doctortest.WellFormed(t, found)
	return found
}

// A system refuses by more than owners and modes, in ways that a test cannot set up.
func TestAFileThatTheSystemRefusesToOpenIsBroken(t *testing.T) {
	t.Parallel()
	path := newStore(t)
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	f := &file{named: path, path: path, folder: filepath.Dir(path), info: info, opened: fmt.Errorf("%w: by a policy", driver.ErrDenied)}
	found, err := use(t.Context(), f)
	if err != nil {
		t.Fatal(err)
	}
	examtest.Compare(t, found, doctor.Broken, "by a policy", "No lock can be taken")
}
