package sqlite

import (
	"os"
	"path/filepath"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// asOwner runs f, and if we are root and the file and its folder are one user's,
// with that user's rights to files: what is made beside the file is then the
// user's too, who would otherwise be locked out. To change the owner afterwards
// would give away what the user puts in the way meanwhile.
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
			return nil // a user who cannot come here is not locked out by anything in it
		}
		reached = true
		return f()
	})
	if err == nil && !reached {
		return f()
	}
	return err
}

// withRights runs f with a user's rights to files, which are the thread's.
func withRights(uid, gid uint32, f func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	oldGID, err := unix.SetfsgidRetGid(int(gid))
	if err != nil {
		return err
	}
	defer func() { _, _ = unix.SetfsgidRetGid(oldGID) }() // the way back is always open
	oldUID, err := unix.SetfsuidRetUid(int(uid))
	if err != nil {
		return err
	}
	defer func() { _, _ = unix.SetfsuidRetUid(oldUID) }()
	return f()
}
