// Package sqlitedoctor examines a SQLite file, for package doctor: where it is, who may
// write to it and to its folder, whether there is room, and what is in it. It opens the
// file to be read only, and changes nothing.
package sqlitedoctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/pawl-go/pawl/doctor"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/sqllock/internal/sqlitefile"
	"github.com/pawl-go/pawl/sqllock/internal/sqlline"
	"github.com/pawl-go/pawl/sqllock/internal/sqlstore"
	"github.com/pawl-go/pawl/sqllock/sqldoctor/internal/sqlexam"
	"github.com/pawl-go/pawl/sqllock/sqlite"
)

func init() { doctor.Register("sqlite", examine) }

// file is what is known of a file before the checks.
type file struct {
	named  string      // the path that the URL names
	path   string      // without symbolic links
	folder string      // of path
	info   os.FileInfo // nil if there is no file

	engine *sqlite.Engine // nil if it could not be opened
	opened error          // why not
}

type check = sqlexam.Check[*file]

var checks = []check{
	{Name: "path", Look: place},
	{Name: "file system", Look: fileSystem},
	{Name: "rights", Look: rights},
	{Name: "space", Look: space},
	{Name: "use", Look: use},
	{Name: "tables", Look: tables},
	{Name: "journal mode", Look: journalMode},
	{Name: "integrity", Look: integrity},
	{Name: "log", Look: logSize},
}

func examine(ctx context.Context, u *url.URL) (found []doctor.Finding, err error) {
	l, err := sqlitefile.ParseURL(u)
	if err != nil {
		return nil, err
	}
	f := &file{}
	if f.named, err = filepath.Abs(l.Path); err != nil {
		return nil, err
	}
	f.path = sqlitefile.Resolve(f.named)
	f.folder = filepath.Dir(f.path)
	f.info, _ = os.Stat(f.path)                                                                // the checks of path and rights say why it is not there
	if kind, err := sqlitefile.NetworkKind(f.folder); f.isFile() && kind == "" && err == nil { // a network may not answer
		f.open(ctx)
	}
	if f.engine != nil {
		defer func() { err = driver.Join(err, f.engine.Close()) }()
	}
	return sqlexam.Run(ctx, f, checks), nil
}

// openLimit bounds the wait for a file that another program keeps locked. pawl itself has
// it locked for less than a millisecond at a time.
const openLimit = 3 * time.Second

func (f *file) open(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, openLimit)
	defer cancel()
	f.engine, f.opened = sqlite.Open(ctx, f.path, sqlite.WithReadOnly(), sqlite.WithNetwork())
}

func (f *file) isFile() bool { return f.info != nil && f.info.Mode().IsRegular() }

// query runs a statement and returns the first column of its rows.
func (f *file) query(ctx context.Context, text string) (column []string, err error) {
	if f.engine == nil {
		return nil, sqlexam.ErrSkip // the checks of rights, use and tables say why
	}
	err = sqlline.ExaminedOf(f.engine).With(ctx, func(q sqlstore.Query) error {
		rows, err := q(ctx, text)
		for _, r := range rows {
			column = append(column, r[0])
		}
		return err
	})
	return column, err
}

func place(_ context.Context, f *file) (doctor.Finding, error) {
	shown := f.path
	if f.path != f.named {
		shown = fmt.Sprintf("%s, to which %s leads", f.path, f.named)
	}
	folder, err := os.Stat(f.folder)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return doctor.Break("", "there is no folder "+f.folder, "No lock can be taken: pawl makes the file, and not its folder.", "mkdir -p "+doctor.Quote(f.folder)), nil
	case err != nil:
		return doctor.Break("", sqlexam.Line(err), "No lock can be taken: the folder cannot be reached.", "namei -l "+doctor.Quote(f.folder)+" # shows which folder this user may not pass"), nil
	case !folder.IsDir():
		return doctor.Break("", f.folder+" is not a folder", "No lock can be taken.", "-s 'sqlite:///another/path'"), nil
	case f.info == nil:
		return doctor.Good("", shown+" is made by the first lock"), nil
	case !f.isFile():
		return doctor.Break("", shown+" is not a regular file", "No lock can be taken.", "-s 'sqlite://"+f.path+"/locks.db'"), nil
	case sqlitefile.IsMountPoint(f.path):
		return doctor.Break("", shown+" is mounted without its folder", "Each container would have a log and locks of its own: pawl refuses the file.",
			fmt.Sprintf("docker run -v %s:%s", doctor.Quote(f.folder), doctor.Quote(f.folder))), nil
	case sqlitefile.IsHardLinked(f.path):
		return doctor.Break("", shown+" has several names (hard links)", "SQLite would keep a log for each name: pawl refuses the file.",
			fmt.Sprintf("find / -xdev -samefile %s", doctor.Quote(f.path))), nil
	}
	return doctor.Good("", shown), nil
}

func fileSystem(_ context.Context, f *file) (doctor.Finding, error) {
	kind, err := sqlitefile.NetworkKind(f.folder)
	if err != nil {
		return doctor.Finding{}, sqlexam.ErrSkip // the check of the path says why
	}
	if kind != "" {
		return doctor.Break("", f.folder+" is on "+kind, "File locks cannot be trusted there: two may hold the same lock, and the file may be corrupted.",
			"-s 'sqlite:///var/lib/pawl/locks.db'"), nil
	}
	disk, err := statDisk(f.folder)
	switch {
	case err != nil:
		return doctor.Finding{}, err
	case disk.kind == "overlayfs":
		return doctor.Warn("", f.folder+" is on overlayfs", "A file of a container's image becomes a file of each container's own when it changes, with locks of its own.",
			fmt.Sprintf("docker run -v pawl:%s", doctor.Quote(f.folder))), nil
	case disk.kind == "tmpfs":
		return doctor.Warn("", f.folder+" is on tmpfs", "A restart of the machine removes the file: records are lost, and tokens grow only by the clock.",
			"-s 'sqlite:///var/lib/pawl/locks.db'"), nil
	}
	return doctor.Good("", "local"), nil
}

const (
	// SQLite's log grows to some 4 MB before it is used again, and the file grows by the
	// names in use. Below little a lock may fail; below low other programs soon leave
	// less.
	little = 1 << 20
	low    = 32 << 20

	// Each process needs a file in FILE.live; log, shared memory and that folder are
	// made by the first.
	littleNodes = 4
	lowNodes    = 100
)

func space(_ context.Context, f *file) (doctor.Finding, error) {
	disk, err := statDisk(f.folder)
	if err != nil || disk.total == 0 {
		return doctor.Finding{}, sqlexam.ErrSkip // not known here, or the check of the path says why
	}
	const full = "Locks cannot be taken or released when the disk is full."
	mount := fmt.Sprintf(`"$(df -P %s | awk 'END { print $6 }')"`, doctor.Quote(f.folder)) // what fills the disk is seldom in the folder
	mend := "du -axh " + mount + " | sort -h | tail"
	found := fmt.Sprintf("%.1f MB are left", float64(disk.free)/(1<<20))
	if disk.nodes > 0 {
		found += fmt.Sprintf(", and %d inodes", disk.freeNodes)
	}
	if disk.free >= low {
		mend = "du -x --inodes " + mount + " | sort -n | tail"
	}
	switch {
	case disk.free < little, disk.nodes > 0 && disk.freeNodes < littleNodes:
		return doctor.Break("", found, full, mend), nil
	case disk.free < low, disk.nodes > 0 && disk.freeNodes < lowNodes:
		return doctor.Warn("", found, full, mend), nil
	}
	return doctor.Good("", found), nil
}
