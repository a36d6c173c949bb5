package zklock

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/pawl-go/pawl/driver"
)

var errClosed = errors.New("zklock: engine is closed")

// classify wraps an error of the client library in what it means for a caller.
// Whatever ended a connection leaves the outcome unknown.
func classify(err error) error {
	switch {
	case err == nil, errors.Is(err, zk.ErrNoNode), errors.Is(err, zk.ErrNodeExists), errors.Is(err, zk.ErrBadVersion),
		errors.Is(err, zk.ErrNotEmpty), errors.Is(err, zk.ErrNoChildrenForEphemerals):
		return err
	case errors.Is(err, zk.ErrSessionExpired), errors.Is(err, zk.ErrClosing):
		return driver.ErrGone
	case errors.Is(err, zk.ErrNoAuth), errors.Is(err, zk.ErrAuthFailed), errors.Is(err, zk.ErrInvalidACL):
		return fmt.Errorf("%w: %w", driver.ErrDenied, err)
	case answered(err):
		return err
	}
	return unreachable(err)
}

// unknown reports whether a call that failed with err, as classify returns it, may
// have been carried out all the same.
func unknown(err error) bool {
	for _, refusal := range []error{
		zk.ErrNoNode, zk.ErrNodeExists, zk.ErrBadVersion, zk.ErrNotEmpty, zk.ErrNoChildrenForEphemerals,
		driver.ErrGone, driver.ErrDenied,
	} {
		if errors.Is(err, refusal) {
			return false
		}
	}
	return !answered(err)
}

// answered reports whether err was made of a server's answer or before anything
// was sent.
func answered(err error) bool {
	for _, known := range []error{
		zk.ErrAPIError, zk.ErrInvalidFlags, zk.ErrInvalidPath, zk.ErrBadArguments, zk.ErrReconfigDisabled, zk.ErrNothing,
		zk.ErrUnhandledFieldType, zk.ErrPtrExpected, zk.ErrShortBuffer,
	} {
		if errors.Is(err, known) {
			return true
		}
	}
	return false
}

// unanswered is why a call to the servers ends with ctx. That a deadline has passed
// says that they were too slow; that it was called off says nothing of them.
func unanswered(ctx context.Context) error {
	err := ctx.Err()
	if errors.Is(err, context.DeadlineExceeded) {
		return unreachable(fmt.Errorf("no answer: %w", err))
	}
	return err
}

func unreachable(err error) error {
	if err == nil {
		err = errors.New("no connection yet")
	}
	return fmt.Errorf("%w: %w", driver.ErrUnreachable, err)
}
