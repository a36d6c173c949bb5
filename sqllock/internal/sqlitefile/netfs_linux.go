package sqlitefile

import "golang.org/x/sys/unix"

// networkKinds are the magic numbers that statfs returns for file systems that may be
// shared between machines, or whose locks are implemented by a program.
var networkKinds = map[uint32]string{
	0x00006969: "NFS",
	0x0000517b: "SMB",
	0xff534d42: "CIFS",
	0xfe534d42: "SMB2",
	0x65735546: "FUSE",
	0x01021997: "9p",
	0x47504653: "GPFS",
	0x0bd00bd0: "Lustre",
	0x5346414f: "AFS",
	0x6b414653: "kAFS",
	0x00c36400: "Ceph",
	0x73757245: "Coda",
	0x0000564c: "NCP",
	0x01161970: "GFS2",
	0x7461636f: "OCFS2",
	0x786f4256: "a VirtualBox shared folder",
}

// NetworkKind names the network file system that dir is on, "" for a local one.
func NetworkKind(dir string) (string, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return "", err
	}
	return networkKinds[uint32(st.Type)], nil
}
