package main

import (
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// sendStarted sends started with the command's pidfd, or without it if it has none or the
// kernel passes none on: of a user whose programs pass on too many, or in a sandbox.
func (c *guardianConn) sendStarted(p process) {
	if p.pidfd == nil || c.sendWithFD(fmt.Sprintf("started %d\n", p.pid), p.pidfd) != nil {
		c.send("started", int64(p.pid))
	}
}

func (c *guardianConn) sendWithFD(line string, f *os.File) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	closed := raw.Write(func(fd uintptr) bool {
		err = unix.Sendmsg(int(fd), []byte(line), unix.UnixRights(int(f.Fd())), nil, unix.MSG_NOSIGNAL)
		return err != unix.EAGAIN
	})
	if closed != nil {
		return closed
	}
	return err
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
