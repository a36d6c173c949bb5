package testserver

import (
	"bufio"
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

// listeners returns the inodes of the sockets of a table that listen on port. The
// kernel writes those that listen first; behind them may be thousands of connections
// that other tests have had.
func listeners(table string, port int) (inodes []string) {
	f, err := os.Open(table)
	if err != nil {
		return nil // no IPv6, no table
	}
	defer f.Close()
	suffix := fmt.Appendf(nil, ":%04X", port)
	rows := bufio.NewScanner(f)
	for rows.Scan(); rows.Scan(); { // the first is the heading
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
