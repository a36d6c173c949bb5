package rueidis

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"
)

// undated is a ctx without a deadline. With one, rueidis would read the reply in the
// caller's goroutine and not notice that ctx was cancelled before it. Its error is
// marked as pawl's, see unsent.
type undated struct {
	context.Context // for the values only: contexts derived from it must ask it for the error
	of              context.Context
}

func withoutDeadline(ctx context.Context) undated {
	return undated{context.WithoutCancel(ctx), ctx}
}

func (u undated) Deadline() (time.Time, bool) { return time.Time{}, false }
func (u undated) Done() <-chan struct{}       { return u.of.Done() }

func (u undated) Err() error {
	if err := u.of.Err(); err != nil {
		return callerError{err}
	}
	return nil
}

// callerError is the error of the ctx of one of pawl's callers.
type callerError struct{ error }

func (e callerError) Unwrap() error { return e.error }

// within calls f and returns when ctx ends, even if f does not: rueidis looks at no ctx
// during the handshake with a server, nor while it waits for another caller's
// connection. Then f goes on among tasks, until the client's own timeouts; also if its
// connection is silent and p finds another that is not.
func within[T any](ctx context.Context, tasks *sync.WaitGroup, p *prober, f func() T) (t T, err error) {
	if ctx.Done() == nil && p == nil {
		return f(), nil
	}
	done := make(chan T, 1)
	tasks.Go(func() { done <- f() })
	return await(ctx, done, p)
}

// unsent reports whether a command was not sent because another caller gave up.
// rueidis connects once for all callers that need a connection, in the ctx of the first;
// if that ends before the handshake, all get its error: pawl's callers are marked, the
// program's may be cancelled. A connection that does not answer pings fails all calls on
// it with a deadline error of neither. None of these may look like the end of the
// caller's own ctx.
func unsent(ctx context.Context, began time.Time, err error) (again bool, _ error) {
	if err == nil || ctx.Err() != nil || !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
		return false, err
	}
	var dial *net.OpError
	var other callerError
	connecting := err == context.Canceled || errors.As(err, &other) || errors.As(err, &dial) && dial.Op == "dial"
	if connecting && time.Since(began) < dialTimeout {
		return true, err
	}
	return false, errors.New(err.Error())
}
