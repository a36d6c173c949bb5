package etcdlock

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/etcdlock/internal/etcdstore"
)

// Leave deletes the claim's key, which belongs to no other claim. The store notifies
// those that watch the key.
func (s *session) Leave(ctx context.Context, c driver.Claim) error {
	if err := s.ready(ctx); err != nil {
		return err
	}
	s.mu.Lock()
	p := s.claims[c.ID]
	if p != nil && p.claim.Try <= c.Try {
		p.wait.close() // whatever the outcome, the claim does not wait any more
	}
	s.mu.Unlock()
	switch {
	case p == nil:
		return s.leaveUnknown(ctx, c)
	case p.claim.Try > c.Try:
		return driver.ErrGone
	}
	return s.leaveKnown(ctx, p, c.Try)
}

// leaveKnown deletes p's key, of any try up to maxTry. A key that is there but was not
// created at p's revision is read: an Enter of the same claim may have arrived late. It
// is deleted too, but the claim that p's Enter answered for is gone.
func (s *session) leaveKnown(ctx context.Context, p *claimState, maxTry int) error {
	if answered, ok := s.startDelete(p); ok {
		return s.deleteKey(ctx, p, answered)
	}
	s.mu.Lock()
	key, revision := p.key, p.revision
	s.mu.Unlock()
	condition, outcome := p.owns(key, revision), error(nil)
	for {
		deleted, err := s.lease.DeleteIf(ctx, key, condition)
		if err != nil {
			return err
		}
		if deleted {
			s.forget(p)
			return outcome
		}
		found, err := s.lease.Get(ctx, etcdstore.Key(key))
		if err != nil {
			return err
		}
		if len(found.Kvs) > 0 {
			e, err := p.line.entry(p.claim.Name, found.Kvs[0])
			if err == nil && e.ID == p.claim.ID && e.Try <= maxTry {
				condition = etcdstore.CreatedAt(key, found.Kvs[0].CreateRevision)
				if revision != 0 {
					outcome = driver.ErrGone
				}
				continue
			}
		}
		s.forget(p)
		return driver.ErrGone
	}
}

// deleteKey deletes the key of a claim whose only Enter was answered. No other claim
// gets that key before the delete is answered, so no condition is needed; a condition
// costs a twentieth of taking and giving back a name.
func (s *session) deleteKey(ctx context.Context, p *claimState, answered func()) error {
	reply, err := s.lease.Do(ctx, clientv3.OpDelete(p.key))
	if err != nil {
		return err
	}
	s.forget(p)
	answered()
	if reply.Del().Deleted == 0 {
		return driver.ErrGone
	}
	return nil
}

// leaveUnknown ends a claim that this session does not know, of any try up to its own:
// it may have been entered by another session, or have arrived after it was forgotten.
func (s *session) leaveUnknown(ctx context.Context, c driver.Claim) error {
	line := s.keys.line(c.Name)
	for {
		reply, err := s.lease.Get(ctx, line.all())
		if err != nil {
			return err
		}
		found := false
		for _, kv := range reply.Kvs {
			e, foreign := line.entry(c.Name, kv)
			if foreign != nil || e.ID != c.ID || e.Try > c.Try {
				continue
			}
			found = true
			key := string(kv.Key)
			if deleted, err := s.lease.DeleteIf(ctx, key, etcdstore.CreatedAt(key, kv.CreateRevision)); err != nil || deleted {
				return err
			}
		}
		if !found {
			return driver.ErrGone
		}
	}
}
