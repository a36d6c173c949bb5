package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// stateFolder is where this user's local store is. A test replaces it.
var stateFolder = func() (string, error) {
	uid := os.Getuid()
	if uid == 0 {
		return filepath.FromSlash("/var/lib/pawl"), nil
	}
	// The passwd entry, not $HOME or $XDG_STATE_HOME: cron and a login shell must
	// meet in one store, or both would hold the lock.
	if u, err := user.LookupId(strconv.Itoa(uid)); err == nil && u.HomeDir != "" {
		return filepath.Join(u.HomeDir, ".local", "state", "pawl"), nil
	}
	if home, err := os.UserHomeDir(); err == nil && uid < 0 { // no user ids on this system
		return filepath.Join(home, ".local", "state", "pawl"), nil
	}
	return "", fmt.Errorf("no home folder for user %d; name a store with -s, such as sqlite:///path", uid)
}

// localPath is the local store's file.
func localPath() (string, error) {
	dir, err := stateFolder()
	if err != nil {
		return "", &coded{exitConfig, err}
	}
	return filepath.Join(dir, "locks.db"), nil
}

// makeLocal makes the local store's folder and file, if they are not there, for
// nobody but us: reasons are read in it, and who may open it can keep it busy.
func makeLocal(path string) error {
	err := os.MkdirAll(filepath.Dir(path), 0o700)
	if err == nil {
		var f *os.File
		if f, err = os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600); err == nil {
			err = f.Close()
		} else if errors.Is(err, fs.ErrExist) {
			err = nil
		}
	}
	if err == nil {
		return trustLocal(path, true)
	}
	code := exitUnavailable
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) {
		code = exitDenied
	}
	return &coded{code, fmt.Errorf("local store: %w; name another with -s, such as sqlite:///path", err)}
}

// trustLocal refuses a local store that is somebody else's. One of ours that
// others may open is closed to them, if it may be changed.
func trustLocal(path string, mend bool) error {
	for p, mode := range map[string]fs.FileMode{filepath.Dir(path): 0o700, path: 0o600, path + "-wal": 0o600, path + "-shm": 0o600} {
		info, err := os.Stat(p)
		if err != nil {
			continue // not there, or told when it is opened
		}
		if uid, ok := ownerOf(info); ok && uid != os.Geteuid() {
			return &coded{exitDenied, fmt.Errorf("local store: %s belongs to user %d, and we are user %d: run chown -R %d %s as root, or name another with -s, such as sqlite:///path",
				p, uid, os.Geteuid(), os.Geteuid(), shellWord(filepath.Dir(path)))}
		}
		if !mend || !modes || info.Mode().Perm()&^mode == 0 {
			continue
		}
		if err := os.Chmod(p, info.Mode().Perm()&mode); err != nil {
			return &coded{exitDenied, fmt.Errorf("local store: others may open it: %w; name another with -s, such as sqlite:///path", err)}
		}
	}
	return nil
}
