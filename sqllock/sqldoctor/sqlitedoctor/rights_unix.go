//go:build unix

package sqlitedoctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/pawl-go/pawl/doctor"
	"github.com/pawl-go/pawl/sqllock/sqldoctor/internal/sqlexam"
)

// rights judges whether this user, and the users to whom the file's mode gives the right
// to write, can lock: SQLite and pawl make files beside it.
func rights(_ context.Context, f *file) (doctor.Finding, error) {
	if _, err := os.Stat(f.folder); err != nil {
		return doctor.Finding{}, sqlexam.ErrSkip // the check of the path says why
	}
	if d, err := statDisk(f.folder); err == nil && d.readOnly {
		return doctor.Break("", f.folder+" is on a file system that is mounted read-only", "No lock can be taken.", "mount -o remount,rw "+doctor.Quote(f.folder)), nil
	}
	faults := sqlexam.Faults{}
	f.ownRights(&faults)
	if faults.Level() == doctor.OK {
		f.othersRights(&faults)
	}
	shown := f.folder
	if f.info != nil {
		shown = f.path
	}
	return faults.Finding(describe(shown)), nil
}

// ownRights looks at everything that this user has to write to.
func (f *file) ownRights(faults *sqlexam.Faults) {
	for _, one := range []struct {
		path   string
		folder bool
	}{{f.folder, true}, {f.path, false}, {f.path + "-wal", false}, {f.path + "-shm", false}, {f.path + ".live", true}} {
		need, letters := uint32(unix.R_OK|unix.W_OK), "rw"
		if one.folder {
			need, letters = unix.R_OK|unix.W_OK|unix.X_OK, "rwx"
		}
		err := unix.Faccessat(unix.AT_FDCWD, one.path, need, unix.AT_EACCESS)
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			continue
		}
		mend := allow(one.path, letters)
		if f.info != nil && one.path != f.path && one.path != f.folder && owner(one.path) != owner(f.path) { // made by root
			mend = fmt.Sprintf("chown %s %s;", userName(owner(f.path)), doctor.Quote(one.path))
		}
		faults.Add(doctor.Broken, fmt.Sprintf("%s may not write to %s", userName(os.Geteuid()), describe(one.path)),
			"No lock can be taken by this user.", mend)
	}
}

// othersRights looks for users who may write to the file and not make files beside it,
// and for those who may put another file in its place.
func (f *file) othersRights(faults *sqlexam.Faults) {
	folder, err := os.Stat(f.folder)
	if err != nil {
		return
	}
	if folder.Mode().Perm()&0o002 != 0 && folder.Mode()&os.ModeSticky == 0 {
		faults.Add(doctor.Warning, describe(f.folder), "Every user may put another file in the place of this one, and locks in the old one exclude nobody.",
			"chmod +t "+doctor.Quote(f.folder)+";")
	}
	if f.info == nil {
		return
	}
	for _, who := range []struct {
		letter      string
		write, need os.FileMode
	}{{"g", 0o020, 0o030}, {"o", 0o002, 0o003}} {
		if f.info.Mode().Perm()&who.write == 0 {
			continue
		}
		for _, dir := range []string{f.folder, f.path + ".live"} {
			if info, err := os.Stat(dir); err == nil && info.Mode().Perm()&who.need != who.need {
				mend := fmt.Sprintf("chmod g+rwx %s;", doctor.Quote(dir))
				if who.letter == "o" { // everybody must not replace the file
					mend = fmt.Sprintf("chmod o-w %s;", doctor.Quote(f.path))
				}
				faults.Add(doctor.Warning, fmt.Sprintf("%s, and %s", describe(f.path), describe(dir)),
					"Some users may write to the file and not make the files beside it: they cannot lock.", mend)
			}
		}
	}
}

// allow returns the lines that let this user write to a path: by the owner's or the group's
// part of its mode, or by a group for those who lock. Who may write to the folder may put
// another file in the place of this one, so that it is never everybody.
func allow(path, letters string) string {
	quoted := doctor.Quote(path)
	info, err := os.Stat(path)
	if err != nil {
		return "ls -ld " + doctor.Quote(filepath.Dir(path)) + ";"
	}
	st, known := info.Sys().(*syscall.Stat_t)
	if known && int(st.Uid) == os.Geteuid() {
		return fmt.Sprintf("chmod u+%s %s;", letters, quoted)
	}
	groups, _ := os.Getgroups()
	if known && slices.Contains(append(groups, os.Getegid()), int(st.Gid)) {
		return fmt.Sprintf("chmod g+%s %s;", letters, quoted)
	}
	users := []int{os.Geteuid()}
	if uid := owner(path); uid > 0 { // it needs the right to what this user makes
		users = append(users, uid)
	}
	lines := "groupadd -f pawl;"
	for _, uid := range users {
		lines += fmt.Sprintf(" usermod -aG pawl %s;", userName(uid))
	}
	if info.IsDir() {
		letters += "s" // what is made there belongs to the group
	}
	return fmt.Sprintf("%s chgrp pawl %s; chmod g+%s %s;", lines, quoted, letters, quoted)
}

// describe returns a path with its owner and mode.
func describe(path string) string {
	info, err := os.Stat(path)
	if err != nil {
		return path
	}
	return fmt.Sprintf("%s (%s, mode %04o)", path, userName(owner(path)), modeOf(info))
}

// modeOf returns the mode as chmod writes it.
func modeOf(info os.FileInfo) uint32 {
	mode := uint32(info.Mode().Perm())
	if info.Mode()&os.ModeSticky != 0 {
		mode |= 0o1000
	}
	return mode
}

// owner returns the user id of a path's owner, -1 if it is not known.
func owner(path string) int {
	info, err := os.Stat(path)
	if err != nil {
		return -1
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(st.Uid)
	}
	return -1
}

func userName(uid int) string {
	if u, err := user.LookupId(strconv.Itoa(uid)); err == nil {
		return u.Username
	}
	return "user " + strconv.Itoa(uid)
}
