package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/once"
)

// The exit codes, beside the command's own and 128+n for a signal. They are
// those of sysexits.h where one fits, so that scripts can tell them apart.
const (
	exitUsage       = 64  // the command line makes no sense
	exitUnavailable = 69  // the store cannot be reached
	exitBusy        = 75  // the lock was not acquired; -E changes it
	exitUnknown     = 76  // a run with --hold began and did not come to its end
	exitDenied      = 77  // the store refused us
	exitConfig      = 78  // the store's URL makes no sense
	exitLost        = 79  // the lock was lost while the command ran
	exitFailed      = 1   // anything else
	exitNotExec     = 126 // the command cannot be executed
	exitNotFound    = 127 // there is no such command
	exitSignal      = 128 // + n: ended by signal n
)

// A coded error says with which code to end. It is printed unless it is empty.
type exitError struct {
	code int
	err  error // nil: everything was said already
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

// codeOf finds the exit code for an error.
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
	case errors.Is(err, pawl.ErrHeld):
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
	// What a store says beyond that, such as that its disk is full, must not look
	// like the command's own code.
	if _, ok := errors.AsType[*pawl.Error](err); ok {
		return exitUnavailable
	}
	return exitFailed
}
