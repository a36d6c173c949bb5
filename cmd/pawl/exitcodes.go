package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/ncruces/go-sqlite3"
	"google.golang.org/grpc/codes"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/once"
)

// The exit codes besides the command's own and 128+n for a signal. They follow
// sysexits.h where possible, so that scripts can tell them apart.
const (
	exitUsage       = 64  // invalid command line
	exitUnavailable = 69  // store unreachable
	exitOutput      = 74  // standard output could not be written; verify and doctor have 2 for this
	exitBusy        = 75  // lock not acquired; -E changes it
	exitUnknown     = 76  // a run with --hold was interrupted, its outcome is unknown
	exitDenied      = 77  // refused by the store: the credentials, a right, or by an etcd without space
	exitConfig      = 78  // invalid store URL
	exitLost        = 79  // lock lost while the command ran
	exitFailed      = 1   // anything else
	exitNotExec     = 126 // command not executable
	exitNotFound    = 127 // command not found
	exitSignal      = 128 // + n: ended by signal n
)

// An exitError carries the exit code of pawl. Its err is printed unless it is nil.
type exitError struct {
	code int
	err  error // nil: everything was already printed
}

func (c *exitError) Error() string {
	if c.err == nil {
		return fmt.Sprintf("exit %d", c.code)
	}
	return c.err.Error()
}

func (c *exitError) Unwrap() error { return c.err }

func usagef(format string, args ...any) error {
	return &exitError{exitUsage, fmt.Errorf(format, args...)}
}

// exitCodeOf returns the exit code for an error.
func exitCodeOf(err error) int {
	if err == nil {
		return 0
	}
	if c, ok := errors.AsType[*exitError](err); ok {
		return c.code
	}
	switch {
	case errors.Is(err, once.ErrUnknownOutcome):
		return exitUnknown
	case errors.Is(err, pawl.ErrHeld), errors.Is(err, sqlite3.BUSY): // a local file in use is not away
		return exitBusy
	case errors.Is(err, pawl.ErrLost):
		return exitLost
	case errors.Is(err, pawl.ErrDenied):
		return exitDenied
	case errors.Is(err, pawl.ErrInvalidName), errors.Is(err, pawl.ErrLimit), errors.Is(err, pawl.ErrUnsupported), errors.Is(err, pawl.ErrInvalid):
		return exitUsage
	case errors.Is(err, pawl.ErrUnreachable), errors.Is(err, pawl.ErrUnknown), errors.Is(err, context.DeadlineExceeded):
		return exitUnavailable
	}
	// etcd answers so after its quota is reached, until an operator has made room.
	if s, ok := errors.AsType[interface {
		error
		Code() codes.Code
	}](err); ok && s.Code() == codes.ResourceExhausted {
		return exitDenied
	}
	// Any other error of a store, for example a full disk, must not look like the
	// command's own exit code.
	if _, ok := errors.AsType[*pawl.Error](err); ok {
		return exitUnavailable
	}
	return exitFailed
}
