package redisline

import (
	"context"
	"errors"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/redislock/internal/redisclient"
)

var _ driver.Leaver = (*session)(nil)

// errNotReached is the answer for a claim that was not asked for before ctx ended.
var errNotReached = errors.New("not reached")

// leaveAll ends many claims, and answers for each.
func (s *session) leaveAll(ctx context.Context, cs []driver.Claim, out []error) {
	of := groups(cs, func(c *driver.Claim) string { return c.Name })
	calls := make([]redisclient.Call, len(of))
	for i, at := range of {
		calls[i] = s.leaveCalls(cs, at)
	}
	for i := range out {
		out[i] = errNotReached
	}
	_ = redisclient.InChunks(ctx, s.store.Client, calls, chunk, func(chunk []int) error {
		claims, answers, _ := s.answersOf(ctx, s.store.Client.DoMany, chunk, calls, of)
		for k, i := range claims {
			if redisclient.Moving(answers[k].Err) {
				out[i] = s.leave(ctx, cs[i])
			} else {
				out[i] = s.left(cs[i], answers[k])
			}
		}
		return nil
	}) // out has the errors
	for i := range out {
		if out[i] == errNotReached {
			out[i] = ctx.Err()
		}
	}
}

// leaveCalls ends claims of one name.
func (s *session) leaveCalls(cs []driver.Claim, at []int) redisclient.Call {
	call := s.leaveCall(&cs[at[0]])
	if len(at) == 1 {
		return call
	}
	args := make([]string, len(at))
	for k, i := range at {
		_, args[k] = s.keysOf(&cs[i])
	}
	return redisclient.Call{Script: leaveManyScript, Keys: call.Keys, Args: args, Claims: len(at)}
}

// left takes in the answer to a Leave.
func (s *session) left(c driver.Claim, a redisclient.Answer) error {
	if a.Err != nil {
		return s.store.wrap(c.Name, a.Err)
	}
	if a.Int == 0 {
		s.absent(c)
		return driver.ErrGone
	}
	s.claims.End(c)
	return nil
}

// leave ends one claim. While its slot is being moved, an exclusive hold is deleted
// without notifying the next waiter.
func (s *session) leave(ctx context.Context, c driver.Claim) error {
	call := s.leaveCall(&c)
	r, err := redisclient.Run(ctx, s.store.Client, call)
	if redisclient.Moving(err) {
		if r, again := s.store.run(ctx, moveLeaveScript, call.Keys[:1], call.Args...); again == nil && r.Int == 1 {
			s.claims.End(c)
			return nil
		}
	}
	return s.left(c, redisclient.Answer{Reply: r, Err: err})
}

func (s *session) leaveCall(c *driver.Claim) redisclient.Call {
	keys, prefix := s.keysOf(c)
	return redisclient.Call{Script: leaveScript, Keys: keys.All(), Args: []string{prefix}, Merge: mergedLeave, Ahead: true}
}
