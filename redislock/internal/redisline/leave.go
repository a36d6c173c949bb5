package redisline

import (
	"context"
	"slices"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/redislock/internal/redisclient"
)

// leaveAll ends many claims.
func (s *session) leaveAll(ctx context.Context, claims []driver.Claim) (failed error) {
	for part := range slices.Chunk(claims, chunk) {
		calls := make([]redisclient.Call, len(part))
		for i := range part {
			calls[i] = s.leaveCall(&part[i])
		}
		answers := make([]redisclient.Answer, len(part))
		redisclient.RunMany(ctx, s.store.Client.DoMany, calls, answers)
		for i, a := range answers {
			if redisclient.Moving(a.Err) && s.leave(ctx, part[i]) == nil {
				continue
			}
			if a.Err == nil {
				s.claims.End(part[i])
			} else if redisclient.Code(a.Err) != "WRONGTYPE" { // then the key is not ours
				failed = redisclient.Wrap(a.Err)
			}
		}
		if ctx.Err() != nil {
			return driver.Join(failed, ctx.Err()) // the other claims expire
		}
	}
	return failed
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
	if err != nil {
		return s.store.wrap(c.Name, err)
	}
	if r.Int == 0 {
		s.absent(c)
		return driver.ErrGone
	}
	s.claims.End(c)
	return nil
}

func (s *session) leaveCall(c *driver.Claim) redisclient.Call {
	keys, prefix := s.keysOf(c)
	return redisclient.Call{Script: leaveScript, Keys: keys.All(), Args: []string{prefix}, Merge: mergedLeave}
}
