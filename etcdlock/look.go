package etcdlock

import (
	"context"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/pawl-go/pawl/driver"
)

// A waiter is notified of its turn, so it only has to verify, once per TTL, that its
// watches still work. The first round is shorter, to learn the holder if Enter could not.
const (
	shortPause = 2 * time.Second
	maxPause   = 10 * time.Second
)

func (s *session) longPause() time.Duration { return min(s.lease.TTL, maxPause) }

// look asks the store for the standing of p, in one read.
//
// With a revision it accepts the state of any member that has that revision, which
// costs no round of the cluster: no claim can come ahead of another, so that a claim
// once held stays held while its key exists. A member that is behind is followed by a
// read of the cluster's own state.
func (s *session) look(ctx context.Context, p *claimState, since int64) (driver.Standing, error) {
	s.mu.Lock()
	revision := p.revision
	s.mu.Unlock()
	at, now, err := s.readPosition(ctx, p, revision, since > 0, false)
	if err == nil && since > 0 && now < max(since, revision) && (at.gone || len(at.blockers) > 0) {
		at, _, err = s.readPosition(ctx, p, revision, false, false)
	}
	if err == nil && at.incomplete {
		at, _, err = s.readPosition(ctx, p, revision, false, true)
	}
	if err != nil {
		return driver.Standing{}, err
	}
	if at.gone {
		s.forget(p)
		return driver.Standing{Gone: true}, nil
	}
	return s.standing(p, at), nil
}

// readPosition reads p's place in its line, as of the revision it returns.
func (s *session) readPosition(ctx context.Context, p *claimState, revision int64, anyMember, full bool) (at position, now int64, err error) {
	ops := append(p.line.aheadReads(p.claim, revision, full), clientv3.OpGet(p.key, clientv3.WithKeysOnly()))
	if anyMember {
		for i := range ops {
			clientv3.WithSerializable()(&ops[i])
		}
	}
	reply, err := s.lease.Read(ctx, ops)
	if err != nil {
		return at, 0, err
	}
	last := len(reply.Responses) - 1
	if at, err = p.line.positionOf(p.claim, reply.Responses[:last], full); err != nil {
		return at, 0, err
	}
	at.long = false // the nearest ones were read
	own := reply.Responses[last].GetResponseRange().Kvs
	at.gone = len(own) == 0 || own[0].CreateRevision != revision
	return at, reply.Header.Revision, nil
}

// standing records p's position and answers for it.
func (s *session) standing(p *claimState, at position) driver.Standing {
	s.mu.Lock()
	defer s.mu.Unlock()
	p.blockers, p.held = at.blockers, len(at.blockers) == 0 && !at.incomplete && !at.long
	if p.held {
		p.wait.close()
		return driver.Standing{Held: true, Ahead: -1, Token: uint64(p.revision)}
	}
	return driver.Standing{Ahead: -1, Pause: shortPause}
}
