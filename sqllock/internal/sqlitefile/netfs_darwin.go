package sqlitefile

import (
	"slices"

	"golang.org/x/sys/unix"
)

// NetworkKind names the network file system that dir is on, "" for a local one.
func NetworkKind(dir string) (string, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return "", err
	}
	name := unix.ByteSliceToString(st.Fstypename[:])
	if slices.Contains([]string{"nfs", "smbfs", "afpfs", "webdav", "ftp", "osxfuse", "macfuse", "fusefs"}, name) {
		return name, nil
	}
	return "", nil
}
