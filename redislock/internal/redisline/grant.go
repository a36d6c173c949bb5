package redisline

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/redislock/internal/redisclient"
)

// confirm makes sure that enough replicas have a grant that was published, not asked
// for.
func (s *session) confirm(ctx context.Context, c *driver.Claim, token uint64) (driver.Standing, error) {
	if s.store.Replicas == 0 {
		return driver.Standing{Held: true, Token: token, Ahead: -1}, nil
	}
	keys, prefix := s.keysOf(c)
	call := redisclient.Call{Script: lookScript, Keys: keys.All(), Args: []string{prefix, s.millis, "1"}}
	// A beat that finds the claim held makes Await return, so the replicas have to
	// answer between two beats.
	r, err := s.grant(ctx, c, call, min(s.store.ReplicaTimeout, s.ttl/6))
	if err != nil {
		s.notReturned(c)
		return driver.Standing{}, s.store.wrap(c.Name, err)
	}
	st, err := s.standing(c, r)
	if err != nil || !st.Held {
		s.notReturned(c)
	}
	return st, err
}

// grant runs a script that may grant c. If the engine waits for replicas, a grant that
// too few of them confirm within a time is undone.
func (s *session) grant(ctx context.Context, c *driver.Claim, call redisclient.Call, within time.Duration) (redisclient.Reply, error) {
	want := s.store.Replicas
	if want == 0 {
		return redisclient.Run(ctx, s.store.Client, call)
	}
	r, confirmed, err := redisclient.RunAndWait(ctx, s.store.Client, call, want, within)
	switch {
	case err != nil && len(r.Array) > 0 && r.Array[0].Int == codeWaits: // WAIT is refused: the claim could never be granted
		return redisclient.Reply{}, s.undo(ctx, c, err)
	case r.Text == "": // not granted, so there is nothing that replicas must have
		return r, err
	case err != nil:
		return redisclient.Reply{}, s.undo(ctx, c, err)
	case confirmed < want:
		return redisclient.Reply{}, s.undo(ctx, c, fmt.Errorf("a grant of %q reached %d of %d replicas within %v and was given back",
			c.Name, confirmed, want, within))
	}
	return r, nil
}

// undo gives back a grant that must not be used. If the server has refused WAIT and the
// claim has ended, the error is that refusal; otherwise the outcome is unknown to the
// caller, which leaves the claim again.
func (s *session) undo(ctx context.Context, c *driver.Claim, cause error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), min(s.ttl, time.Second))
	defer cancel()
	err := s.leave(ctx, *c)
	if redisclient.Temporary(cause) { // WAIT was ended, by an operator or a failover: the same call may be repeated
		return errors.New(cause.Error()) // without the server's code, which would be a refusal
	}
	if err == nil || errors.Is(err, driver.ErrGone) {
		if redisclient.Code(cause) == "NOPERM" {
			return cause
		}
		return redisclient.ReplicationError{Err: cause}
	}
	return redisclient.ReplicationError{Err: errors.New(cause.Error())} // without the server's code, which would be a refusal
}
