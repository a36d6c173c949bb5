//go:build !linux

package redislock

import "net"

// Awake returns c as it is: only on Linux does a reader stay awake for an answer.
func Awake(c net.Conn) net.Conn { return c }
