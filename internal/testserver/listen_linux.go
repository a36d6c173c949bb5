package testserver

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
)

// listening is the state of a listening socket in the kernel's tables.
const listening = "0A"

// listens reports whether the process itself listens on port. A probe is not
// enough: if another program took the port first, that one may answer before the
// server has noticed and ended.
func (p *process) listens(port int) bool {
	inodes := map[string]bool{}
	for _, table := range []string{"tcp", "tcp6"} {
		for _, inode := range listeners(filepath.Join("/proc/net", table), port) {
			inodes[fmt.Sprintf("socket:[%s]", inode)] = true
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

// listeners returns the inodes of the sockets in table that listen on port. The
// kernel writes listening sockets first; thousands of old connections may follow.
func listeners(table string, port int) (inodes []string) {
	f, err := os.Open(table)
	if err != nil {
		return nil // without IPv6 there is no table
	}
	defer f.Close()
	suffix := fmt.Appendf(nil, ":%04X", port)
	rows := bufio.NewScanner(f)
	for rows.Scan(); rows.Scan(); { // the first line is the heading
		// Number, local and remote address, state, six more, then the inode at 9.
		fields := bytes.Fields(rows.Bytes())
		if len(fields) < 10 || string(fields[3]) != listening {
			break
		}
		if bytes.HasSuffix(fields[1], suffix) {
			inodes = append(inodes, string(fields[9]))
		}
	}
	return inodes
}
