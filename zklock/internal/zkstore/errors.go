package zkstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/pawl-go/pawl/driver"
)

// classify wraps an error of the client library in the driver's error for it. A lost
// connection leaves the outcome of a call unknown.
func classify(err error) error {
	switch {
	case err == nil, isRefusal(err), isLocal(err):
		return err
	case errors.Is(err, zk.ErrSessionExpired), errors.Is(err, zk.ErrClosing):
		return driver.ErrGone
	case errors.Is(err, zk.ErrNoAuth), errors.Is(err, zk.ErrAuthFailed), errors.Is(err, zk.ErrInvalidACL):
		return fmt.Errorf("%w: %w", driver.ErrDenied, err)
	case err.Error() == quotaExceeded:
		return fmt.Errorf("%w: a quota of the path is exceeded", driver.ErrDenied)
	}
	return Unreachable(err)
}

// quotaExceeded is what the library makes of a code that it does not know: servers from
// 3.7 on answer so where quotas are enforced.
var quotaExceeded = fmt.Sprintf("unknown error: %v", zk.ErrCode(-125))

// OutcomeUnknown reports whether a call that returned err may have been carried out.
func OutcomeUnknown(err error) bool {
	return !isRefusal(err) && !isLocal(err) && !isAny(err, driver.ErrGone, driver.ErrDenied, driver.ErrUnsupported)
}

// isRefusal reports whether err says that the servers refused a request because of the
// state of a node.
func isRefusal(err error) bool {
	return isAny(err, zk.ErrNoNode, zk.ErrNodeExists, zk.ErrBadVersion, zk.ErrNotEmpty, zk.ErrNoChildrenForEphemerals)
}

// isLocal reports whether err comes from a malformed request or reply.
func isLocal(err error) bool {
	return isAny(err, zk.ErrAPIError, zk.ErrInvalidFlags, zk.ErrInvalidPath, zk.ErrBadArguments, zk.ErrReconfigDisabled,
		zk.ErrNothing, zk.ErrUnhandledFieldType, zk.ErrPtrExpected, zk.ErrShortBuffer)
}

func isAny(err error, targets ...error) bool {
	for _, target := range targets {
		if errors.Is(err, target) {
			return true
		}
	}
	return false
}

// ContextError is the error of a call that the servers had not answered when ctx ended. A
// deadline that has passed says that they were too slow; a cancelled ctx says nothing
// about them.
func ContextError(ctx context.Context) error {
	err := ctx.Err()
	if errors.Is(err, context.DeadlineExceeded) {
		return Unreachable(fmt.Errorf("no answer: %w", err))
	}
	return err
}

// Unreachable wraps err in driver.ErrUnreachable.
func Unreachable(err error) error {
	if err == nil {
		err = errors.New("no connection yet")
	}
	return fmt.Errorf("%w: %w", driver.ErrUnreachable, err)
}
