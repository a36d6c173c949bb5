package etcdlock

import (
	"context"
	"errors"
	"fmt"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/pawl-go/pawl/driver"
)

// maxToken is the first revision that is too large for a token.
const maxToken = 1 << 55

// entered reads the replies to a transaction that put every key.
func (s *session) entered(ctx context.Context, attempts []*attempt, reply *clientv3.TxnResponse) ([]driver.Standing, error) {
	revision, replies := reply.Header.Revision, reply.Responses
	out := make([]driver.Standing, len(attempts))
	var err error
	if revision >= maxToken {
		err = fmt.Errorf("etcdlock: revision %d is too large for a token", revision)
	}
	for i, a := range attempts {
		var own []*pb.ResponseOp
		own, replies = replies[:len(a.ops)], replies[len(a.ops):]
		at := position{ahead: -1}
		if err == nil && a.claim.Queue {
			at, err = a.line.positionOf(a.claim, own[:a.aheadReads], false)
			if at.long {
				at.blockers = nil // Await asks for the nearest ones
			}
		}
		s.setEntered(a.claimState, revision)
		out[i] = s.standing(a.claimState, at)
		out[i].Ahead = int(at.ahead)
		if at.incomplete && err == nil {
			out[i], err = s.look(ctx, a.claimState, 0)
		}
		if !out[i].Held && err == nil {
			out[i].Holder, err = a.holder(own)
		}
	}
	if err != nil {
		for _, a := range attempts {
			_ = s.leaveKnown(ctx, a.claimState, a.claim.Try) // a key that stays is known here, and the core leaves it again
		}
		return nil, err
	}
	return out, nil
}

// refused reads the replies to the refusal reads of a transaction that put nothing. It
// answers for the claims if their keys are there already or other claims are ahead, and
// returns neither answer nor error if the transaction is to be tried again.
func (s *session) refused(ctx context.Context, attempts []*attempt, reply *clientv3.TxnResponse) ([]driver.Standing, error) {
	replies := reply.Responses
	out := make([]driver.Standing, len(attempts))
	var present []*attempt
	var held, differs bool
	for i, a := range attempts {
		var own []*pb.ResponseOp
		n := len(a.refusalReads())
		own, replies = replies[:n], replies[n:]
		r, err := a.refusal(own, reply.Header.Revision)
		if err != nil {
			s.abandon(attempts)
			return nil, err
		}
		switch r.reason {
		case alreadyEntered:
			s.enterArrived(a.claimState, r.revision)
			present = append(present, a)
		case keyTaken:
			s.changeSlot(a.claimState)
		case limitDiffers:
			differs = true
		case nameHeld:
			held = true
		}
		out[i] = driver.Standing{Ahead: r.ahead, Holder: r.holder, Pause: shortPause}
	}
	switch {
	case len(present) == len(attempts):
		return s.lookAll(ctx, attempts)
	case len(present) > 0: // part of an earlier EnterAll, whose other claims were ended
		for _, a := range present {
			if err := s.leaveKnown(ctx, a.claimState, a.claim.Try); err != nil && !errors.Is(err, driver.ErrGone) {
				return nil, err
			}
			s.restore(a.claimState)
		}
		return nil, nil
	case differs:
		s.abandon(attempts)
		return nil, driver.ErrLimit
	case held:
		s.abandon(attempts)
		return out, nil
	}
	return nil, nil
}

func (s *session) lookAll(ctx context.Context, attempts []*attempt) ([]driver.Standing, error) {
	out := make([]driver.Standing, len(attempts))
	for i, a := range attempts {
		st, err := s.look(ctx, a.claimState, 0)
		if err != nil {
			return nil, err
		}
		out[i] = st
	}
	return out, nil
}

// abandon forgets claims that were not entered.
func (s *session) abandon(attempts []*attempt) {
	for _, a := range attempts {
		s.forget(a.claimState)
	}
}
