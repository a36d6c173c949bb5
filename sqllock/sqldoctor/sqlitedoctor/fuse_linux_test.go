package sqlitedoctor

import (
	"encoding/binary"
	"fmt"
	"syscall"
)

// Requests of the kernel's FUSE protocol.
const (
	fuseGetattr = 3
	fuseStatfs  = 17
	fuseInit    = 26
	fuseOpendir = 27
)

// mountFUSE mounts an empty folder that this process serves until it ends.
func mountFUSE(dir string) error {
	fd, err := syscall.Open("/dev/fuse", syscall.O_RDWR|syscall.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	if err := syscall.Mount("test", dir, "fuse", 0, fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0", fd)); err != nil {
		return err
	}
	go serveFUSE(fd) // ends with the process
	return nil
}

// serveFUSE answers requests about the folder itself, and says of any other that there is
// no such file.
func serveFUSE(fd int) {
	request := make([]byte, 1<<17)
	for {
		n, err := syscall.Read(fd, request)
		if err == syscall.EINTR {
			continue
		}
		if err != nil || n < 40 {
			return
		}
		var body []byte
		errno := int32(0)
		switch binary.NativeEndian.Uint32(request[4:]) {
		case fuseInit:
			body = make([]byte, 64)
			binary.NativeEndian.PutUint32(body[0:], 7)      // the protocol's version
			binary.NativeEndian.PutUint32(body[4:], 23)     // before which there are no further fields
			binary.NativeEndian.PutUint32(body[20:], 1<<16) // the largest write
		case fuseGetattr:
			body = make([]byte, 104)
			binary.NativeEndian.PutUint64(body[16:], 1)                        // the inode
			binary.NativeEndian.PutUint32(body[16+60:], syscall.S_IFDIR|0o755) // its mode
			binary.NativeEndian.PutUint32(body[16+64:], 2)                     // its links
		case fuseStatfs:
			body = make([]byte, 80)
			for i, v := range []uint64{1 << 20, 1 << 20, 1 << 20, 1 << 20, 1 << 20} { // blocks and inodes, all free
				binary.NativeEndian.PutUint64(body[8*i:], v)
			}
			binary.NativeEndian.PutUint32(body[40:], 4096) // bytes of a block
		case fuseOpendir:
			body = make([]byte, 16)
		default:
			errno = -int32(syscall.ENOENT)
		}
		reply := make([]byte, 16, 16+len(body))
		binary.NativeEndian.PutUint32(reply[0:], uint32(16+len(body)))
		binary.NativeEndian.PutUint32(reply[4:], uint32(errno))
		copy(reply[8:16], request[8:16]) // the request's number
		if _, err := syscall.Write(fd, append(reply, body...)); err != nil && err != syscall.ENOENT {
			return
		}
	}
}
