package sqlitedoctor

import "golang.org/x/sys/unix"

// kinds are magic numbers of statfs.
var kinds = map[uint32]string{unix.OVERLAYFS_SUPER_MAGIC: "overlayfs", unix.TMPFS_MAGIC: "tmpfs", unix.RAMFS_MAGIC: "tmpfs"}

func statDisk(dir string) (disk, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return disk{}, err
	}
	size := uint64(st.Bsize)
	return disk{
		kind:  kinds[uint32(st.Type)],
		total: st.Blocks * size, free: st.Bavail * size,
		nodes: st.Files, freeNodes: st.Ffree,
		readOnly: st.Flags&unix.ST_RDONLY != 0,
	}, nil
}
