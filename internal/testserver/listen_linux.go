package testserver

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
)

// listening is how the kernel's tables write the state of a listening socket.
const listening = "0A"

// listens reports whether the process itself listens on port. A probe alone cannot
// tell: where another program took the port first, that one may answer before the
// server has found out and ended.
func (p *process) listens(port int) bool {
	inodes := map[string]bool{}
	for _, table := range []string{"tcp", "tcp6"} {
		data, _ := os.ReadFile(filepath.Join("/proc/net", table)) // no IPv6, no table
		for row := range bytes.Lines(data) {
			// Number, local and remote address, state, six more, then the inode at 9.
			fields := bytes.Fields(row)
			if len(fields) > 9 && string(fields[3]) == listening &&
				bytes.HasSuffix(fields[1], fmt.Appendf(nil, ":%04X", port)) {
				inodes[fmt.Sprintf("socket:[%s]", fields[9])] = true
			}
		}
	}
	handles, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", p.pid()))
	for _, handle := range handles {
		if target, err := os.Readlink(handle); err == nil && inodes[target] {
			return true
		}
	}
	return false
}
