//go:build !linux

package browser

import "syscall"

// attributes are none: a process outlives tests that are killed.
func attributes() *syscall.SysProcAttr { return nil }
