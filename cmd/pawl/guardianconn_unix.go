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

// A link is what pawl and its guardian talk over, in lines of a word and a number. To
// pawl it says started (pid), failed (errno), signal (number), answer (to which ask),
// stopped (signal), late and ended (status); to the guardian until (uptime) and ask
// (number). Its end is the end of the other one.
type guardianConn struct{ *os.File }

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

// linkOf is an end of a link, by its descriptor.
func connFromFD(fd int) (*guardianConn, error) {
	if err := syscall.SetNonblock(fd, true); err != nil { // or a write could not be given up
		return nil, err
	}
	return &guardianConn{os.NewFile(uintptr(fd), "link")}, nil
}

// send sends a line, and reports whether the other end can get it. If that stands still
// for long, it does without.
func (c *guardianConn) send(word string, n int64) bool {
	_ = c.SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
	_, err := fmt.Fprintf(c, "%s %d\n", word, n)
	return err == nil || errors.Is(err, os.ErrDeadlineExceeded)
}

// receive calls got with each line, to the end.
func (c *guardianConn) receive(got func(word string, n int64)) {
	for lines := bufio.NewScanner(c); lines.Scan(); {
		var word string
		var n int64
		if _, err := fmt.Sscanf(lines.Text(), "%s %d", &word, &n); err == nil {
			got(word, n)
		}
	}
}
