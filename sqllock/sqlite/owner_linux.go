package sqlite

import (
	"os"
	"path/filepath"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// asOwner runs f. If this process is root and the file and its folder belong to one user,
// it does so with that user's rights to files: files made beside the database then belong
// to the user, who could not open them otherwise. Changing their owner afterwards would
// be unsafe: the user could replace them by a link meanwhile.
func asOwner(path string, f func() error) error {
	file, err := os.Stat(path)
	folder, ferr := os.Stat(filepath.Dir(path))
	if os.Geteuid() != 0 || err != nil || ferr != nil {
		return f()
	}
	owner, ok := file.Sys().(*syscall.Stat_t)
	other, fok := folder.Sys().(*syscall.Stat_t)
	if !ok || !fok || owner.Uid == 0 || owner.Uid != other.Uid {
		return f()
	}
	reached := false
	err = withRights(owner.Uid, owner.Gid, func() error {
		if _, err := os.Stat(path); err != nil {
			return nil // the user cannot reach the folder anyway
		}
		reached = true
		return f()
	})
	if err == nil && !reached {
		return f()
	}
	return err
}

// withRights runs f with a user's rights to files, which belong to the thread.
func withRights(uid, gid uint32, f func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	oldGID, err := unix.SetfsgidRetGid(int(gid))
	if err != nil {
		return err
	}
	defer func() { _, _ = unix.SetfsgidRetGid(oldGID) }() // returning to the old one cannot fail
	oldUID, err := unix.SetfsuidRetUid(int(uid))
	if err != nil {
		return err
	}
	defer func() { _, _ = unix.SetfsuidRetUid(oldUID) }()
	return f()
}
