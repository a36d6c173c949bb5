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
// user's too, who would otherwise be locked out. The rights are the thread's, and
// they are asked for by the kernel, so nothing that the user puts in the way can be
// given away or be written to.
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
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	gid, err := unix.SetfsgidRetGid(int(owner.Gid))
	if err != nil {
		return err
	}
	defer unix.SetfsgidRetGid(gid)
	uid, err := unix.SetfsuidRetUid(int(owner.Uid))
	if err != nil {
		return err
	}
	defer unix.SetfsuidRetUid(uid)
	return f()
}
