package etcdlock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/etcdlock/internal/etcdstore"
)

// Enter takes a place in line, and with it the name if no claim is ahead, in one
// transaction. It promises no time: a key lives as long as the session's lease, which
// a put does not prolong.
func (s *session) Enter(ctx context.Context, c driver.Claim) (driver.Standing, error) {
	out, err := s.EnterAll(ctx, []driver.Claim{c})
	if err != nil {
		return driver.Standing{}, err
	}
	return out[0], nil
}

// EnterAll enters every claim in one transaction, or none. A transaction of the server
// has room for about forty names; more are refused.
func (s *session) EnterAll(ctx context.Context, cs []driver.Claim) ([]driver.Standing, error) {
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	attempts := make([]*attempt, len(cs))
	for i, c := range cs {
		p, err := s.stateOf(ctx, c)
		if err != nil {
			return nil, err
		}
		if p == nil {
			out := make([]driver.Standing, len(cs))
			out[i].Gone = true // the call was delivered late; its answer is not used
			return out, nil
		}
		attempts[i] = &attempt{claimState: p}
	}
	return s.commit(ctx, attempts)
}

// stateOf returns the state of c, the same one if c is known, and ends a lower try of
// it. The session knows the lower tries it has entered itself; if it knows none, an
// earlier try may be in line under another session. Where a later try is known, stateOf
// returns nil.
func (s *session) stateOf(ctx context.Context, c driver.Claim) (*claimState, error) {
	s.mu.Lock()
	known := s.claims[c.ID]
	if known != nil && known.claim.Try == c.Try && known.left {
		// A beat must not take the key that is being put for an orphan. A beat that is
		// running may have done so already, and would delete what is at the old key. So the
		// claim gets another slot, and the old one stays taken.
		s.assignSlotLocked(known)
		known.left = false
	}
	s.mu.Unlock()
	switch {
	case known == nil && c.Try > 1:
		lower := c
		lower.Try--
		if err := s.leaveUnknown(ctx, lower); err != nil && !errors.Is(err, driver.ErrGone) {
			return nil, err
		}
	case known == nil:
	case known.claim.Try == c.Try:
		return known, nil
	case known.claim.Try > c.Try:
		return nil, nil
	default:
		if err := s.leaveKnown(ctx, known, c.Try-1); err != nil && !errors.Is(err, driver.ErrGone) {
			return nil, err
		}
	}
	return s.newClaim(c), nil
}

// commit makes one transaction of all attempts, and another where the server did
// nothing and the reason has been dealt with.
func (s *session) commit(ctx context.Context, attempts []*attempt) ([]driver.Standing, error) {
	// A claim that does not queue is refused by any claim ahead, and must learn the reason
	// in the same round trip. Claims that queue are refused only because of their own
	// earlier calls: they read nothing, because a smaller transaction is a faster one.
	explain := slices.ContainsFunc(attempts, func(a *attempt) bool { return !a.claim.Queue })
	for {
		conditions, ops := s.compose(attempts)
		var reads []clientv3.Op
		if explain {
			reads = refusalReads(attempts)
		}
		if max(len(conditions), len(ops), len(reads)) > etcdstore.MaxOps {
			s.abandon(attempts)
			return nil, fmt.Errorf("%w: %d names in one step", driver.ErrUnsupported, len(attempts))
		}
		sent := time.Now()
		reply, err := s.lease.Commit(ctx, conditions, ops, reads)
		if err != nil {
			return nil, s.commitFailed(err, sent, attempts)
		}
		if reply.Succeeded {
			return s.entered(ctx, attempts, reply)
		}
		if !explain {
			if reply, err = s.lease.Read(ctx, refusalReads(attempts)); err != nil {
				if etcdstore.Untouched(err) { // else an earlier Enter may have put a key: the claims stay known until they are left
					s.abandon(attempts)
				}
				return nil, err
			}
		}
		out, err := s.refused(ctx, attempts, reply)
		if err != nil || out != nil {
			return out, err
		}
	}
}

// compose makes one transaction of all attempts.
func (s *session) compose(attempts []*attempt) (conditions []clientv3.Cmp, ops []clientv3.Op) {
	for _, a := range attempts {
		a.compose(s.lease.ID)
		if len(attempts) == 1 {
			return a.conditions, a.ops
		}
		conditions, ops = append(conditions, a.conditions...), append(ops, a.ops...)
	}
	return conditions, ops
}

// refusalReads is what is read where the transaction is refused.
func refusalReads(attempts []*attempt) (reads []clientv3.Op) {
	for _, a := range attempts {
		reads = append(reads, a.refusalReads()...)
	}
	return reads
}

// commitFailed records that a transaction had no answer, or was refused with an error.
func (s *session) commitFailed(err error, sent time.Time, attempts []*attempt) error {
	if etcdstore.Untouched(err) {
		s.abandon(attempts)
	} else {
		for _, a := range attempts {
			s.enterUnanswered(sent, a.claimState)
		}
	}
	return err
}
