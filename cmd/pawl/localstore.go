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

// stateFolder returns the folder of this user's local store. Tests replace it. It
// depends only on the user id and on files of the machine, not on $HOME or
// $XDG_STATE_HOME: cron and a login shell must use the same store, or both would
// hold the lock.
var stateFolder = func() (string, error) {
	uid := os.Getuid()
	if uid == 0 {
		return filepath.FromSlash("/var/lib/pawl"), nil
	}
	home := homeOf(uid)
	if uid < 0 { // a system without user ids
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

// homeOf returns the home folder from /etc/passwd; empty if the user is not listed.
// It does not ask a directory service: while that is down, the same user would get
// another store, and whether it is asked depends on how pawl was built. Only macOS
// keeps its users elsewhere.
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

// folderWithoutHome returns the folder of a user who is not in /etc/passwd, for
// example in a container with an arbitrary user id or on a machine that uses a
// directory service. It is in a folder in which every user can create files but not
// move those of others. /var/tmp survives a reboot, as records should; /tmp is for
// containers in which nothing else is writable.
func folderWithoutHome(uid int) (string, error) {
	for _, shared := range []string{"/var/tmp", "/tmp"} {
		if protectsEntries(shared) {
			return filepath.Join(shared, "pawl-"+strconv.Itoa(uid)), nil
		}
	}
	return "", fmt.Errorf("user %d is not in /etc/passwd and so has no home folder, and neither /var/tmp nor /tmp can be written to and keeps others from moving what is there (chmod +t); name a store with -s, such as sqlite:///path", uid)
}

// localPath returns the path of the local store's file.
func localPath() (string, error) {
	dir, err := stateFolder()
	if err != nil {
		return "", &exitError{exitConfig, err}
	}
	return filepath.Join(dir, "locks.db"), nil
}

// makeLocal creates the local store's folder and file if they are missing. Only
// this user can access them: the file contains reasons, and anyone who can open it
// can block it.
func makeLocal(path string) error {
	err := os.MkdirAll(filepath.Dir(path), 0o700)
	if refused := checkLocalOwner(path, true); refused != nil {
		return refused // before anything is created in it
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

// checkLocalOwner refuses a local store that belongs to another user. If repair is
// set, it removes the access of others to this user's own store.
func checkLocalOwner(path string, repair bool) error {
	if err := refuseLink(filepath.Dir(path)); err != nil {
		return err
	}
	for p, mode := range map[string]fs.FileMode{filepath.Dir(path): 0o700, path: 0o600, path + "-wal": 0o600, path + "-shm": 0o600} {
		info, err := os.Stat(p)
		if err != nil {
			continue // missing, or reported when it is opened
		}
		if uid, ok := ownerOf(info); ok && uid != os.Geteuid() {
			return &exitError{exitDenied, fmt.Errorf("local store: %s belongs to user %d, and we are user %d: run chown -R %d %s as root, or name another with -s, such as sqlite:///path",
				p, uid, os.Geteuid(), os.Geteuid(), shellWord(filepath.Dir(path)))}
		}
		if !repair || !hasFileModes || info.Mode().Perm()&^mode == 0 {
			continue
		}
		if err := os.Chmod(p, info.Mode().Perm()&mode); err != nil {
			return &exitError{exitDenied, fmt.Errorf("local store: others may open it: %w; name another with -s, such as sqlite:///path", err)}
		}
	}
	return nil
}

// refuseLink refuses a symbolic link in a folder of another user, who could point
// it to one store now and to another later.
func refuseLink(dir string) error {
	link, err := os.Lstat(dir)
	if err != nil || link.Mode()&fs.ModeSymlink == 0 {
		return nil
	}
	above, err := os.Stat(filepath.Dir(dir))
	if err != nil {
		return nil // reported when it is opened
	}
	if uid, ok := ownerOf(above); ok && uid != os.Geteuid() {
		return &exitError{exitDenied, fmt.Errorf("local store: %s is a link, in a folder that is not ours: remove it, or name another with -s, such as sqlite:///path", dir)}
	}
	return nil
}
