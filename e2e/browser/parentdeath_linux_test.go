package browser

import "syscall"

// attributes make a process end with the tests, also if those are killed.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
