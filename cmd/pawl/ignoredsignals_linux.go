package main

import (
	"bufio"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// ignoredSignals returns the signals that were ignored when pawl started. It must
// be called before any signal is caught.
func ignoredSignals() (ignored []syscall.Signal) {
	f, err := os.Open("/proc/self/status")
	if err != nil {
		return ignoredByGo()
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if hex, ok := strings.CutPrefix(lines.Text(), "SigIgn:"); ok {
			set, _ := strconv.ParseUint(strings.TrimSpace(hex), 16, 64)
			for n := range 31 {
				if set&(1<<n) != 0 {
					ignored = append(ignored, syscall.Signal(n+1))
				}
			}
		}
	}
	return ignored
}
