package sqlite

import (
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// mounted reports whether path itself is a mount point: a file that was mounted
// alone, without its folder. SQLite's log and shared memory and our liveness files
// lie beside the file, so they would be found by those of this mount only.
func mounted(path string) bool {
	var st unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_TYPE, &st)
	if err == nil && st.Attributes_mask&unix.STATX_ATTR_MOUNT_ROOT != 0 {
		return st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0
	}
	return mountListed(path) // before Linux 5.8
}

// mountListed is mounted by the kernel's list.
func mountListed(path string) bool {
	list, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return false
	}
	escaped := strings.NewReplacer(`\`, `\134`, " ", `\040`, "\t", `\011`, "\n", `\012`).Replace(path)
	for line := range strings.Lines(string(list)) {
		if f := strings.Fields(line); len(f) > 4 && f[4] == escaped {
			return true
		}
	}
	return false
}
