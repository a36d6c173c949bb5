package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
)

// stateFolder is where this user's local store is. A test replaces it. It depends on
// the user's id and on files of the machine alone, not on $HOME or $XDG_STATE_HOME: cron
// and a login shell must meet in one store, or both would hold the lock.
var stateFolder = func() (string, error) {
	uid := os.Getuid()
	if uid == 0 {
		return filepath.FromSlash("/var/lib/pawl"), nil
	}
	home := homeOf(uid)
	if uid < 0 { // no user ids on this system
		var err error
		if home, err = os.UserHomeDir(); err != nil {
			return "", fmt.Errorf("no home folder: %w; name a store with -s, such as sqlite:///path", err)
		}
	}
	if home == "" {
		return folderWithoutHome(uid)
	}
	return filepath.Join(home, ".local", "state", "pawl"), nil
}

// homeOf is the user's folder by the machine's own list; empty if it is not there. A
// directory service is not asked: when it does not answer, the same user would have
// another store, and whoever asks it depends on how pawl was built. Only macOS keeps
// its users elsewhere.
func homeOf(uid int) string {
	if runtime.GOOS == "darwin" {
		u, err := user.LookupId(strconv.Itoa(uid))
		if err != nil {
			return ""
		}
		return u.HomeDir
	}
	list, err := os.ReadFile("/etc/passwd")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(list)) {
		if f := strings.Split(strings.TrimSpace(line), ":"); len(f) >= 6 && f[2] == strconv.Itoa(uid) {
			return f[5]
		}
	}
	return ""
}

// homelessFolder is for a user whom the machine does not know, as in a container that
// was given a user id, or on a machine that asks a directory for its users. It is below
// a folder where everybody may make one, and nobody may move another's: /var/tmp
// outlives a restart, as records should; /tmp is for a container where only that can be
// written to.
func folderWithoutHome(uid int) (string, error) {
	for _, shared := range []string{"/var/tmp", "/tmp"} {
		if protectsEntries(shared) {
			return filepath.Join(shared, "pawl-"+strconv.Itoa(uid)), nil
		}
	}
	return "", fmt.Errorf("user %d is not in /etc/passwd and so has no home folder, and neither /var/tmp nor /tmp can be written to and keeps others from moving what is there (chmod +t); name a store with -s, such as sqlite:///path", uid)
}

// localPath is the local store's file.
func localPath() (string, error) {
	dir, err := stateFolder()
	if err != nil {
		return "", &exitError{exitConfig, err}
	}
	return filepath.Join(dir, "locks.db"), nil
}

// makeLocal makes the local store's folder and file, if they are not there, for
// nobody but us: reasons are read in it, and who may open it can keep it busy.
func makeLocal(path string) error {
	err := os.MkdirAll(filepath.Dir(path), 0o700)
	if theirs := checkLocalOwner(path, true); theirs != nil {
		return theirs // before anything is made in it
	}
	if err == nil {
		var f *os.File
		if f, err = os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600); err == nil {
			return f.Close()
		} else if errors.Is(err, fs.ErrExist) {
			return nil
		}
	}
	code := exitUnavailable
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) {
		code = exitDenied
	}
	return &exitError{code, fmt.Errorf("local store: %w; name another with -s, such as sqlite:///path", err)}
}

// trustLocal refuses a local store that is somebody else's. One of ours that
// others may open is closed to them, if it may be changed.
func checkLocalOwner(path string, mend bool) error {
	if err := refuseLink(filepath.Dir(path)); err != nil {
		return err
	}
	for p, mode := range map[string]fs.FileMode{filepath.Dir(path): 0o700, path: 0o600, path + "-wal": 0o600, path + "-shm": 0o600} {
		info, err := os.Stat(p)
		if err != nil {
			continue // not there, or told when it is opened
		}
		if uid, ok := ownerOf(info); ok && uid != os.Geteuid() {
			return &exitError{exitDenied, fmt.Errorf("local store: %s belongs to user %d, and we are user %d: run chown -R %d %s as root, or name another with -s, such as sqlite:///path",
				p, uid, os.Geteuid(), os.Geteuid(), shellWord(filepath.Dir(path)))}
		}
		if !mend || !hasFileModes || info.Mode().Perm()&^mode == 0 {
			continue
		}
		if err := os.Chmod(p, info.Mode().Perm()&mode); err != nil {
			return &exitError{exitDenied, fmt.Errorf("local store: others may open it: %w; name another with -s, such as sqlite:///path", err)}
		}
	}
	return nil
}

// refuseLink refuses a folder that is a link where others may have made it: they could
// lead us to one store now, and to another later.
func refuseLink(dir string) error {
	link, err := os.Lstat(dir)
	if err != nil || link.Mode()&fs.ModeSymlink == 0 {
		return nil
	}
	above, err := os.Stat(filepath.Dir(dir))
	if err != nil {
		return nil // told when it is opened
	}
	if uid, ok := ownerOf(above); ok && uid != os.Geteuid() {
		return &exitError{exitDenied, fmt.Errorf("local store: %s is a link, in a folder that is not ours: remove it, or name another with -s, such as sqlite:///path", dir)}
	}
	return nil
}
