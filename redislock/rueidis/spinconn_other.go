//go:build !linux

package rueidis

import "net"

// newSpinConn returns c unchanged: readers spin on Linux only.
func newSpinConn(c net.Conn) net.Conn { return c }
