package etcdlock

import (
	"context"
	"errors"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/pawl-go/pawl/driver"
)

// refused reads the answers of a transaction that put nothing, and says why:
// the keys are there already, somebody is in the way, or it is to be tried again.
func (s *session) refused(ctx context.Context, spots []*spot, plans []plan, reply *clientv3.TxnResponse) ([]driver.Standing, error) {
	replies := reply.Responses
	out := make([]driver.Standing, len(spots))
	var present []*spot
	var busy, clash bool
	for i, p := range spots {
		var mine []*pb.ResponseOp
		n := len(plans[i].reasons(p))
		mine, replies = replies[:n], replies[n:]
		v, err := plans[i].verdict(p, mine, reply.Header.Revision)
		if err != nil {
			s.drop(spots)
			return nil, err
		}
		switch v.why {
		case isPresent:
			s.mu.Lock()
			p.rev, p.left = v.rev, false
			s.mu.Unlock()
			present = append(present, p)
		case isOther:
			s.reslot(p)
		case isClash:
			clash = true
		case isBusy:
			busy = true
		}
		out[i] = driver.Standing{Ahead: v.ahead, Holder: v.holder, Pause: shortPause}
	}
	switch {
	case len(present) == len(spots):
		return s.lookAll(ctx, spots)
	case len(present) > 0: // half of an earlier EnterAll, of which somebody ended the rest
		for _, p := range present {
			if err := s.end(ctx, p, p.claim.Try); err != nil && !errors.Is(err, driver.ErrGone) {
				return nil, err
			}
			s.again(p)
		}
		return nil, nil
	case clash:
		s.drop(spots)
		return nil, driver.ErrLimit
	case busy:
		s.drop(spots)
		return out, nil
	}
	return nil, nil
}

// reslot gives p another key: a late Enter of a claim that was left has landed
// where this one was to stand. The old slot is not used again.
func (s *session) reslot(p *spot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.giveLocked(p)
}

// again puts a spot back that end has forgotten.
func (s *session) again(p *spot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.spots[p.claim.ID] == p {
		p.left = false
		return
	}
	s.giveLocked(p)
	s.spots[p.claim.ID] = p
}

func (s *session) lookAll(ctx context.Context, spots []*spot) ([]driver.Standing, error) {
	out := make([]driver.Standing, len(spots))
	for i, p := range spots {
		st, err := s.look(ctx, p, 0)
		if err != nil {
			return nil, err
		}
		out[i] = st
	}
	return out, nil
}
