package sqlite

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// locksOn reports which kinds of lock this process has on a file: POSIX locks, which
// other SQLite libraries take and which belong to the process, and locks of an open file
// description, which ours takes. The kernel lists both for each descriptor.
func locksOn(file os.FileInfo) (posix, ofd bool) {
	want, ok := file.Sys().(*syscall.Stat_t)
	fds, err := os.ReadDir("/proc/self/fd")
	if !ok || err != nil {
		return false, false
	}
	for _, fd := range fds {
		n, err := strconv.Atoi(fd.Name())
		var st unix.Stat_t
		if err != nil || unix.Fstat(n, &st) != nil || st.Ino != want.Ino || st.Dev != want.Dev {
			continue
		}
		info, err := os.ReadFile(filepath.Join("/proc/self/fdinfo", fd.Name()))
		if err != nil {
			continue // closed meanwhile
		}
		posix = posix || bytes.Contains(info, []byte(" POSIX "))
		ofd = ofd || bytes.Contains(info, []byte(" OFDLCK "))
	}
	return posix, ofd
}
