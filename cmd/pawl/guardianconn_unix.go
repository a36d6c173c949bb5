//go:build unix

package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// A guardianConn connects pawl and its guardian. Messages are lines of a word and a
// number. Pawl receives started (pid, with the pidfd on Linux), failed (errno), signal (number), synced
// (number of the sync), stopped (signal), late and ended (status); the guardian
// receives deadline (uptime) and sync (number). The connection closes when the
// other process ends.
type guardianConn struct {
	*os.File
	pidfd int // of the command, received with started; 0: none
}

func newGuardianConn() (near *guardianConn, far *os.File, err error) {
	syscall.ForkLock.RLock()
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err == nil {
		syscall.CloseOnExec(fds[0])
		syscall.CloseOnExec(fds[1])
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return nil, nil, err
	}
	if near, err = connFromFD(fds[0]); err != nil {
		return nil, nil, err
	}
	return near, os.NewFile(uintptr(fds[1]), "guardian"), nil
}

// connFromFD returns one end of a connection by its descriptor.
func connFromFD(fd int) (*guardianConn, error) {
	if err := syscall.SetNonblock(fd, true); err != nil { // so that writes can time out
		return nil, err
	}
	return &guardianConn{File: os.NewFile(uintptr(fd), "link")}, nil
}

// send sends a message. It reports false if the other end is closed; if the other
// process is stalled, the message is dropped.
func (c *guardianConn) send(word string, n int64) bool {
	_ = c.SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
	_, err := fmt.Fprintf(c, "%s %d\n", word, n)
	return err == nil || errors.Is(err, os.ErrDeadlineExceeded)
}

// receive calls got with each message until the connection closes.
func (c *guardianConn) receive(got func(word string, n int64)) {
	for lines := bufio.NewScanner(c); lines.Scan(); {
		var word string
		var n int64
		if _, err := fmt.Sscanf(lines.Text(), "%s %d", &word, &n); err == nil {
			got(word, n)
		}
	}
}
