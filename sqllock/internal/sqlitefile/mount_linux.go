package sqlitefile

import (
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// IsMountPoint reports whether path itself is a mount point: a file that was mounted
// without its folder. SQLite's log and shared memory and the liveness files are beside
// the file, so only processes of this mount would find them.
func IsMountPoint(path string) bool {
	var st unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_TYPE, &st)
	if err == nil && st.Attributes_mask&unix.STATX_ATTR_MOUNT_ROOT != 0 {
		return st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0
	}
	return isListedMount(path) // before Linux 5.8
}

// isListedMount reads the kernel's list of mounts.
func isListedMount(path string) bool {
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
