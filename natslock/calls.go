package natslock

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driverkit"
	"github.com/pawl-go/pawl/driverkit/kvline"
	"github.com/pawl-go/pawl/natslock/internal/natsstore"
)

const (
	firstWait = 500 * time.Millisecond // for the answer to a question, before it is asked again
	callLimit = natsstore.CallLimit    // after which a server counts as unreachable
)

// api is what subjects of requests to JetStream begin with.
const api = jetstream.DefaultAPIPrefix

// call sends a request to a subject and returns the reply, or an error of package driver.
func call[R any](ctx context.Context, s *store, subject string, f func(context.Context) (R, error)) (R, error) {
	reply, err, _ := attempt(ctx, s, subject, callLimit, f)
	return reply, err
}

// ask is call for a request that changes nothing the second time: it is repeated, since
// servers drop requests without an answer while a stream has no leader.
func ask[R any](ctx context.Context, s *store, subject string, f func(context.Context) (R, error)) (reply R, err error) {
	for wait, silent := firstWait, true; silent && wait <= callLimit; wait *= 2 {
		reply, err, silent = attempt(ctx, s, subject, wait, f)
	}
	return reply, err
}

// attempt makes a call. silent says that no answer came in time.
func attempt[R any](ctx context.Context, s *store, subject string, wait time.Duration, f func(context.Context) (R, error)) (reply R, err error, silent bool) {
	limited := limit(ctx, wait)
	defer limited.end()
	sent := driverkit.Now()
	if reply, err = f(limited); err == nil {
		return reply, nil, false
	}
	if ctx.Err() == nil || driverkit.Now().Sub(sent) >= firstWait { // else it was the caller who had no patience
		s.failed(ctx, err)
	}
	silent = limited.Err() != nil && ctx.Err() == nil
	err = s.fault(ctx, subject, err)
	return reply, err, silent && errors.Is(err, driver.ErrUnreachable)
}

// fault returns an error of the client in the words of package driver.
func (s *store) fault(ctx context.Context, subject string, err error) error {
	refusal, refused := errors.AsType[*jetstream.APIError](err)
	denied := denial(s.js.Conn(), subject)
	switch {
	case ctx.Err() != nil && (denied == nil || errors.Is(ctx.Err(), context.Canceled)):
		return ctx.Err()
	case refused && (refusal.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence || refusal.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequenceConstant):
		return kvline.ErrConflict
	case errors.Is(err, jetstream.ErrStreamNotFound), errors.Is(err, jetstream.ErrNoStreamResponse):
		s.forget()
		return fmt.Errorf("natslock: %w: bucket %q was deleted, or has no leader: %w", driver.ErrUnreachable, s.options.bucket, err)
	case errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount), errors.Is(err, jetstream.ErrJetStreamNotEnabled) && !s.mayHaveJetStream():
		return fmt.Errorf("natslock: %w: %w", driver.ErrUnsupported, err)
	case errors.Is(err, nats.ErrAuthorization), errors.Is(err, nats.ErrAuthExpired):
		return fmt.Errorf("natslock: %w: %w", driver.ErrDenied, err)
	case errors.Is(err, nats.ErrConnectionClosed):
		return fmt.Errorf("natslock: %w", err)
	case errors.Is(err, nats.ErrMaxPayload):
		return fmt.Errorf("natslock: the line is longer than a message can be: %w", err)
	case isFull(err):
		return fmt.Errorf("natslock: %w: there is no room: %w", driver.ErrDenied, err)
	case isPermanent(err):
		return fmt.Errorf("natslock: %w", err)
	case denied != nil:
		return fmt.Errorf("natslock: %w: %w", driver.ErrDenied, denied)
	}
	return fmt.Errorf("natslock: %w: %w", driver.ErrUnreachable, err)
}

// mayHaveJetStream reports whether JetStream may come back, where no one answers requests to
// it now: it was there, or the server is one of a cluster, in which others may have it.
func (s *store) mayHaveJetStream() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.clock.at != 0 || s.js.Conn().ConnectedClusterName() != ""
}

// forget makes the next call look for the bucket again.
func (s *store) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.found = nil
}

// denial returns the server's last refusal if it concerns a subject, or the replies to
// every request: a request without the right gets no answer.
func denial(conn *nats.Conn, subject string) error {
	err := conn.LastError()
	if !errors.Is(err, nats.ErrPermissionViolation) {
		return nil
	}
	inbox := conn.Opts.InboxPrefix
	if inbox == "" {
		inbox = nats.InboxPrefix
	}
	if text := err.Error(); strings.Contains(text, `"`+subject+`"`) || strings.Contains(text, `"`+inbox) {
		return err
	}
	return nil
}
