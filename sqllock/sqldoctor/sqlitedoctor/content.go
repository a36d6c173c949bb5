package sqlitedoctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/ncruces/go-sqlite3"

	"github.com/pawl-go/pawl/doctor"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/sqllock/internal/sqlitefile"
	"github.com/pawl-go/pawl/sqllock/sqldoctor/internal/sqlexam"
)

// use finds out whether other processes let this one at the file, and have the same clock.
func use(ctx context.Context, f *file) (doctor.Finding, error) {
	if live, err := os.Stat(f.path + ".live"); err == nil && !live.IsDir() {
		return doctor.Break("", f.path+".live is not a folder", "No lock can be taken: each process keeps a file in that folder.",
			fmt.Sprintf("mv %s %s", doctor.Quote(f.path+".live"), doctor.Quote(f.path+".live.old"))), nil
	}
	switch {
	case !f.isFile():
		return doctor.Finding{}, sqlexam.ErrSkip
	case errors.Is(f.opened, driver.ErrUnreachable):
		return doctor.Break("", "another program keeps the file locked", "No lock can be taken or renewed until that program lets the file go.", "fuser -v "+doctor.Quote(f.path)), nil
	case errors.Is(f.opened, driver.ErrDenied) && !f.lacksRights(ctx):
		return doctor.Break("", sqlexam.Line(f.opened), "No lock can be taken: the system refuses to open the file.", "ls -la "+doctor.Quote(f.folder)), nil
	case f.engine == nil:
		return doctor.Finding{}, sqlexam.ErrSkip // other checks say why
	}
	if _, err := f.engine.Line(ctx, "doctor"); err != nil { // any name: this compares the clocks
		return doctor.Break("", sqlexam.Line(err), "pawl refuses the file: it cannot tell which claims still stand.", "fuser -v "+doctor.Quote(f.path)), nil
	}
	return doctor.Good("", "no other program is in the way"), nil
}

// lacksRights reports whether the check of rights says why the file cannot be opened. It
// sees owners and modes, and not everything else by which a system may refuse.
func (f *file) lacksRights(ctx context.Context) bool {
	found, err := rights(ctx, f)
	return err == nil && found.Level == doctor.Broken
}

func tables(ctx context.Context, f *file) (doctor.Finding, error) {
	var version sqlitefile.VersionError
	switch err := f.opened; {
	case !f.isFile(), errors.Is(err, fs.ErrPermission), errors.Is(err, driver.ErrUnreachable), errors.Is(err, driver.ErrDenied):
		return doctor.Finding{}, sqlexam.ErrSkip // other checks say why
	case err == nil:
		names, err := f.query(ctx, "SELECT count(*) FROM main.sqlite_master WHERE type = 'table' AND name NOT LIKE 'pawl\\_%' ESCAPE '\\' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'")
		if err != nil {
			return doctor.Finding{}, err
		}
		return doctor.Good("", fmt.Sprintf("of version %d, beside %s tables of other programs", sqlitefile.Version, names[0])), nil
	case errors.Is(err, sqlitefile.ErrNoTables):
		return doctor.Good("", "none yet: the first lock makes them"), nil
	case errors.As(err, &version):
		mend := "go install github.com/pawl-go/pawl/cmd/pawl@latest"
		if int64(version) < sqlitefile.Version {
			mend = "-s 'sqlite:///another/path'"
		}
		return doctor.Break("", fmt.Sprintf("the tables are of version %d, this program knows version %d", int64(version), sqlitefile.Version),
			"pawl refuses tables of another version.", mend), nil
	case errors.Is(err, sqlite3.NOTADB):
		return doctor.Break("", f.path+" is not a SQLite database", "No lock can be taken in it: pawl leaves the file alone.", "-s 'sqlite:///another/path'"), nil
	case errors.Is(err, sqlite3.CORRUPT):
		return doctor.Break("", "the file is corrupt", "Locks fail, or claims are missing.", recovery(f)), nil
	case sqlitefile.IsMountPoint(f.path), sqlitefile.IsHardLinked(f.path):
		return doctor.Finding{}, sqlexam.ErrSkip // the check of the path says why
	default:
		return doctor.Finding{}, err
	}
}

// recovery returns the line that puts what can be read into the file's place. Not every
// sqlite3 has .recover: Debian's writes nothing then. A dump that met an error ends with
// ROLLBACK.
func recovery(f *file) string {
	path, made, old := doctor.Quote(f.path), doctor.Quote(f.path+".new"), doctor.Quote(f.path+".corrupt")
	return fmt.Sprintf("sqlite3 %[1]s .dump | sed 's/^ROLLBACK.*/COMMIT;/' | sqlite3 -cmd 'PRAGMA journal_mode = WAL' %[2]s && mv %[1]s %[3]s && mv %[2]s %[1]s && rm -f %[4]s %[5]s # when all programs have let the file go",
		path, made, old, doctor.Quote(f.path+"-wal"), doctor.Quote(f.path+"-shm"))
}

func journalMode(ctx context.Context, f *file) (doctor.Finding, error) {
	mode, err := f.query(ctx, "PRAGMA main.journal_mode")
	switch {
	case err != nil:
		return doctor.Finding{}, err
	case len(mode) == 0 || mode[0] != "wal":
		return doctor.Warn("", "it is "+strings.Join(mode, ""), "Another program has changed it: pawl sets it back when it opens the file, and cannot while that program has the file open.",
			fmt.Sprintf("sqlite3 %s 'PRAGMA journal_mode = WAL'", doctor.Quote(f.path))), nil
	}
	return doctor.Good("", "wal"), nil
}

func integrity(ctx context.Context, f *file) (doctor.Finding, error) {
	for _, table := range []string{"pawl_meta", "pawl_head", "pawl_claim", "pawl_record"} {
		says, err := f.query(ctx, "PRAGMA main.quick_check("+table+")")
		if errors.Is(err, sqlite3.CORRUPT) {
			says, err = []string{sqlexam.Line(err)}, nil
		}
		switch {
		case err != nil:
			return doctor.Finding{}, err
		case len(says) != 1 || says[0] != "ok":
			return doctor.Break("", table+": "+strings.Join(strings.Fields(strings.Join(says, "; ")), " "), "Locks fail, or claims are missing.", recovery(f)), nil
		}
	}
	return doctor.Good("", "pawl's tables are sound"), nil
}

// bigLog is a size that the log does not reach unless a reader keeps SQLite from using it
// again: 4 MB are usual.
const bigLog = 32 << 20

func logSize(_ context.Context, f *file) (doctor.Finding, error) {
	log, err := os.Stat(f.path + "-wal")
	switch {
	case !f.isFile():
		return doctor.Finding{}, sqlexam.ErrSkip
	case errors.Is(err, fs.ErrNotExist):
		return doctor.Good("", "empty"), nil
	case err != nil:
		return doctor.Finding{}, sqlexam.ErrSkip // the check of rights says why
	case log.Size() > bigLog:
		return doctor.Warn("", fmt.Sprintf("%d MB", log.Size()>>20), "A program that reads for long keeps the log from being used again: locks become slower, and the disk fills.",
			fmt.Sprintf("sqlite3 %s 'PRAGMA wal_checkpoint(TRUNCATE)'", doctor.Quote(f.path))), nil
	}
	return doctor.Good("", fmt.Sprintf("%d KB", log.Size()>>10)), nil
}
