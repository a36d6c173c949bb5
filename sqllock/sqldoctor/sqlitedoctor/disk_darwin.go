package sqlitedoctor

import "golang.org/x/sys/unix"

func statDisk(dir string) (disk, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return disk{}, err
	}
	size := uint64(st.Bsize)
	return disk{
		total: st.Blocks * size, free: st.Bavail * size,
		nodes: st.Files, freeNodes: st.Ffree,
		readOnly: st.Flags&unix.MNT_RDONLY != 0,
	}, nil
}
