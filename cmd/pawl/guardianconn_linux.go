package main

import (
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// sendStarted sends started with the command's pidfd, if it has one.
func (c *guardianConn) sendStarted(p process) {
	raw, err := c.SyscallConn()
	if p.pidfd == nil || err != nil {
		c.send("started", int64(p.pid))
		return
	}
	_ = raw.Write(func(fd uintptr) bool {
		err = unix.Sendmsg(int(fd), fmt.Appendf(nil, "started %d\n", p.pid), unix.UnixRights(int(p.pidfd.Fd())), nil, unix.MSG_NOSIGNAL)
		return err != unix.EAGAIN
	})
}

// Read reads what the other end has sent, and keeps the pidfd that comes with it.
func (c *guardianConn) Read(p []byte) (n int, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, err
	}
	var rights int
	with := make([]byte, unix.CmsgSpace(4))
	closed := raw.Read(func(fd uintptr) bool {
		n, rights, _, _, err = unix.Recvmsg(int(fd), p, with, unix.MSG_CMSG_CLOEXEC)
		return err != unix.EAGAIN && err != unix.EINTR
	})
	switch {
	case closed != nil:
		return 0, closed
	case err != nil:
		return 0, err
	case n == 0:
		return 0, io.EOF
	}
	if messages, err := unix.ParseSocketControlMessage(with[:rights]); err == nil && len(messages) == 1 {
		if fds, err := unix.ParseUnixRights(&messages[0]); err == nil && len(fds) == 1 {
			c.pidfd = fds[0]
		}
	}
	return n, nil
}

// commandWith returns the command by its pid and the pidfd that was received.
func (c *guardianConn) commandWith(pid int) process { return newProcess(pid, c.pidfd) }

// newProcess returns a process by its pid and its pidfd, which is not positive if there
// is none: the command's is never 0.
func newProcess(pid, pidfd int) process {
	if pidfd <= 0 {
		return process{pid: pid}
	}
	return process{pid, os.NewFile(uintptr(pidfd), "pidfd")}
}
