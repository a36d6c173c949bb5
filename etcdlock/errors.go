package etcdlock

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pawl-go/pawl/driver"
)

// classify wraps what the client returned in the contract's words. ctx is that of the
// call. If its time was over, that is the reason, whatever the client made of it: the
// store has not answered in the time that it was given. If the caller called it off,
// nothing is said about the store.
func classify(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	err = rpctypes.Error(err) // what did not come by the client, whose errors are that already
	code := codeOf(err)
	switch code {
	case codes.Canceled, codes.DeadlineExceeded, codes.Unavailable:
		if why := ctx.Err(); errors.Is(why, context.DeadlineExceeded) {
			return fmt.Errorf("%w: no answer: %w", driver.ErrUnreachable, why)
		} else if why != nil {
			return why
		}
	}
	if kind := kindOf(err, code); kind != nil {
		return fmt.Errorf("%w: %w", kind, err)
	}
	return err
}

// kindOf sorts the errors of etcd's servers and of the connection to them.
//
// ErrUnreachable is for what passes by itself. Its outcome counts as unknown, since
// mostly it is: a request that timed out, or was under way when the leader changed or
// the member stopped, may yet be carried out. Some were certainly not (a proposal that
// was dropped because the leader hands over, a member that is too busy, is a learner,
// or has just started); they are repeated in the same way.
//
// What has no kind was refused and would be again: no space, a request that is too
// large, a TTL that is too long, a corrupt member.
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
		return driver.ErrUnreachable // users and roles were changed meanwhile
	}
	switch code {
	case codes.PermissionDenied, codes.Unauthenticated:
		return driver.ErrDenied
	case codes.Unavailable, codes.DeadlineExceeded, codes.Internal:
		return driver.ErrUnreachable // Internal: the connection broke in the middle of a reply
	case codes.Unknown:
		if _, told := status.FromError(err); told {
			return driver.ErrUnreachable // what servers have no code for: raft dropped the proposal, or has stopped
		}
	}
	return nil
}

// untouched reports whether a transaction that failed with err has certainly not been
// carried out, and will not be.
func untouched(err error) bool {
	for _, known := range []error{driver.ErrGone, driver.ErrDenied, driver.ErrUnsupported, rpctypes.ErrNoSpace, rpctypes.ErrRequestTooLarge} {
		if errors.Is(err, known) {
			return true
		}
	}
	return false
}

// codeOf finds the code of an error of the server or of the connection.
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

// patience is how long one call waits for an answer. A member that is silent, and
// whose connection still stands, must not keep a claim from the others: the core
// calls again, and the client takes its members in turn.
func patience(ttl time.Duration) time.Duration {
	return min(max(ttl/6, 2*time.Second), longest)
}

// longest is the patience of calls that belong to no session. The client would repeat
// them for as long as it is let where nobody listens.
const longest = 5 * time.Second

// get reads keys, with the longest patience.
func (e *Engine) get(ctx context.Context, key string, opts ...clientv3.OpOption) (reply *clientv3.GetResponse, err error) {
	err = ask(ctx, longest, func(call context.Context) (err error) {
		reply, err = e.client.Get(call, key, opts...)
		return err
	})
	return reply, err
}

// brief bounds one call by the session's patience. Its errors are classified by
// the context that it was made of.
func (s *session) brief(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(ctx, patience(s.ttl))
	return undated{ctx}, cancel
}

// ask makes a call that only reads, with the session's patience.
func (s *session) ask(ctx context.Context, call func(context.Context) error) error {
	return ask(ctx, patience(s.ttl), call)
}

// ask makes a call that only reads, and again where nobody answered: that has no
// outcome to be unsure of. Without it, a caller that needs three answers of three
// members in turn, one of which is silent, would never have them all.
func ask(ctx context.Context, patience time.Duration, call func(context.Context) error) error {
	for tries := 1; ; tries++ {
		timed, cancel := context.WithTimeout(ctx, patience)
		limited := undated{timed}
		err := call(limited)
		silent := limited.Err() != nil && ctx.Err() == nil
		cancel()
		if err == nil || !silent || tries == 3 {
			return classify(ctx, err)
		}
	}
}

// undated is a context that ends when it ends, and does not say so beforehand. A
// deadline that is told goes to the server with every call, and costs some
// percent of what taking a name costs; the server learns of the end as it comes.
type undated struct{ context.Context }

// Deadline returns that there is none.
func (undated) Deadline() (time.Time, bool) { return time.Time{}, false }
