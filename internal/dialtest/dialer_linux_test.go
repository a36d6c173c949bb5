package dialtest_test

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// connectionsTo returns the TCP connections of this process to ports, with the ports that
// they were made from. Their keys are never used again.
func connectionsTo(t *testing.T, ports []int) map[string]int {
	t.Helper()
	own := map[string]bool{}
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range fds {
		target, _ := os.Readlink("/proc/self/fd/" + fd.Name()) // it may be closed by now
		if inode, found := strings.CutPrefix(target, "socket:["); found {
			own[strings.TrimSuffix(inode, "]")] = true
		}
	}
	all := map[string]int{}
	for _, file := range []string{"/proc/self/net/tcp", "/proc/self/net/tcp6"} {
		table, err := os.ReadFile(file)
		if err != nil {
			continue // a system without IPv6
		}
		for line := range strings.Lines(string(table)) {
			if f := strings.Fields(line); len(f) > 9 && own[f[9]] && slices.Contains(ports, hexPort(f[2])) {
				all[f[9]] = hexPort(f[1])
			}
		}
	}
	return all
}

// hexPort returns the port of an address in the kernel's table.
func hexPort(addr string) int {
	n, _ := strconv.ParseInt(addr[strings.LastIndex(addr, ":")+1:], 16, 32) // 0 for the table's head
	return int(n)
}
