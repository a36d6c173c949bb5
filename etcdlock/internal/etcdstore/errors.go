package etcdstore

import (
	"context"
	"errors"
	"fmt"
	"io"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pawl-go/pawl/driver"
)

// classify wraps an error of the client in a sentinel of package driver. ctx is the
// caller's. If its deadline has passed, the store has not answered in the time it was
// given, whatever the client reports. If the caller cancelled it, the error says
// nothing about the store.
func classify(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	err = rpctypes.Error(err) // the client has converted its errors already; raw streams have not
	code := codeOf(err)
	switch code {
	case codes.Canceled, codes.DeadlineExceeded, codes.Unavailable:
		if ended := ctx.Err(); errors.Is(ended, context.DeadlineExceeded) {
			return fmt.Errorf("%w: no answer: %w", driver.ErrUnreachable, ended)
		} else if ended != nil {
			return ended
		}
	}
	if kind := kindOf(err, code); kind != nil {
		return fmt.Errorf("%w: %w", kind, err)
	}
	return err
}

// kindOf sorts the errors of etcd's servers and of the connection to them.
//
// ErrUnreachable is for transient errors. Their outcome counts as unknown, because it
// usually is: a request that timed out, or was in flight when the leader changed or
// the member stopped, may still be carried out. Some were certainly not carried out (a
// proposal dropped because the leader hands over; a member that is too busy, is a
// learner, or has just started); they are repeated in the same way.
//
// Errors without a kind are refusals that would be repeated: no space, a request that
// is too large, a TTL that is too long, a corrupt member.
func kindOf(err error, code codes.Code) error {
	switch {
	case errors.Is(err, rpctypes.ErrLeaseNotFound):
		return driver.ErrGone
	case errors.Is(err, rpctypes.ErrTooManyOps):
		return driver.ErrUnsupported
	case errors.Is(err, rpctypes.ErrAuthFailed), errors.Is(err, rpctypes.ErrUserEmpty), errors.Is(err, rpctypes.ErrUserNotFound):
		return driver.ErrDenied
	case errors.Is(err, rpctypes.ErrTooManyRequests), errors.Is(err, rpctypes.ErrNotLeader), errors.Is(err, rpctypes.ErrNotCapable),
		errors.Is(err, rpctypes.Error(rpctypes.ErrGRPCNotSupportedForLearner)), errors.Is(err, io.EOF):
		return driver.ErrUnreachable
	case errors.Is(err, rpctypes.ErrAuthOldRevision):
		return driver.ErrUnreachable // users and roles were changed during the call
	}
	switch code {
	case codes.PermissionDenied, codes.Unauthenticated:
		return driver.ErrDenied
	case codes.Unavailable, codes.DeadlineExceeded, codes.Internal:
		return driver.ErrUnreachable // Internal: the connection broke in the middle of a reply
	case codes.Unknown:
		if _, fromServer := status.FromError(err); fromServer {
			return driver.ErrUnreachable // errors without a code of their own: raft dropped the proposal, or has stopped
		}
	}
	return nil
}

// Untouched reports whether a transaction that failed with err was certainly not
// carried out, and will not be.
func Untouched(err error) bool {
	for _, known := range []error{driver.ErrGone, driver.ErrDenied, driver.ErrUnsupported, rpctypes.ErrNoSpace, rpctypes.ErrRequestTooLarge} {
		if errors.Is(err, known) {
			return true
		}
	}
	return false
}

// Compacted reports whether err says that the revision asked for was compacted away.
func Compacted(err error) bool { return errors.Is(err, rpctypes.ErrCompacted) }

// codeOf returns the code of an error of the server or of the connection.
func codeOf(err error) codes.Code {
	var etcd rpctypes.EtcdError
	switch {
	case errors.As(err, &etcd):
		return etcd.Code()
	case errors.Is(err, context.Canceled):
		return codes.Canceled
	case errors.Is(err, context.DeadlineExceeded):
		return codes.DeadlineExceeded
	}
	return status.Code(err)
}
