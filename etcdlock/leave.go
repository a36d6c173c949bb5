package etcdlock

import (
	"context"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/pawl-go/pawl/driver"
)

// Leave deletes the claim's key, which is no other's. Whoever watches the
// key is told by the store.
func (s *session) Leave(ctx context.Context, c driver.Claim) error {
	if err := s.alive(ctx); err != nil {
		return err
	}
	s.mu.Lock()
	p := s.spots[c.ID]
	if p != nil && p.claim.Try <= c.Try {
		p.vigil.close() // whatever comes of it, nobody waits any more
	}
	s.mu.Unlock()
	switch {
	case p == nil:
		return s.search(ctx, c)
	case p.claim.Try > c.Try:
		return driver.ErrGone
	}
	return s.end(ctx, p, c.Try)
}

// end deletes p's key, of any try up to upto. A key that is there and not the
// one that was answered for is looked at: an Enter of the same claim that was held up
// may have landed since. It is ended too, but what was answered for is gone.
func (s *session) end(ctx context.Context, p *spot, upto int) error {
	if answered, ok := s.deleting(p); ok {
		return s.discard(ctx, p, answered)
	}
	s.mu.Lock()
	rev := p.rev
	s.mu.Unlock()
	while, gone := p.same(rev), error(nil)
	for {
		ended, err := s.remove(ctx, p.key, while)
		if err != nil {
			return err
		}
		if ended {
			s.forget(p)
			return gone
		}
		kvs, err := s.get(ctx, p.key)
		if err != nil {
			return err
		}
		if len(kvs) > 0 {
			e, err := p.line.entry(p.claim.Name, kvs[0])
			if err == nil && e.ID == p.claim.ID && e.Try <= upto {
				while = created(p.key, kvs[0].CreateRevision)
				if rev != 0 {
					gone = driver.ErrGone
				}
				continue
			}
		}
		s.forget(p)
		return driver.ErrGone
	}
}

// discard deletes the key of a claim whose only Enter was answered. No other claim
// has that key before the delete is answered, so that nothing need be compared,
// which is dear: it costs a twentieth of taking and giving back a name.
func (s *session) discard(ctx context.Context, p *spot, answered func()) error {
	call, cancel := s.brief(ctx)
	defer cancel()
	reply, err := s.e.client.Delete(call, p.key)
	if err != nil {
		return classify(ctx, err)
	}
	s.forget(p)
	answered()
	if reply.Deleted == 0 {
		return driver.ErrGone
	}
	return nil
}

// search ends a claim that this session does not know, of any try up to its own:
// it may have been entered by another session, or so late that it was forgotten.
func (s *session) search(ctx context.Context, c driver.Claim) error {
	line := s.e.space.line(c.Name)
	for {
		kvs, err := s.get(ctx, line.from, clientv3.WithRange(line.to))
		if err != nil {
			return err
		}
		var ended, found bool
		for _, kv := range kvs {
			e, bad := line.entry(c.Name, kv)
			if bad != nil || e.ID != c.ID || e.Try > c.Try {
				continue
			}
			found = true
			if ended, err = s.remove(ctx, string(kv.Key), created(string(kv.Key), kv.CreateRevision)); err != nil || ended {
				return err
			}
		}
		if !found {
			return driver.ErrGone
		}
	}
}

// created holds while key is still the one that was created at rev.
func created(key string, rev int64) clientv3.Cmp {
	return clientv3.Compare(clientv3.CreateRevision(key), "=", rev)
}

// remove deletes a key while something holds, and says whether it did.
func (s *session) remove(ctx context.Context, key string, while clientv3.Cmp) (bool, error) {
	call, cancel := s.brief(ctx)
	defer cancel()
	reply, err := s.e.client.Txn(call).If(while).Then(clientv3.OpDelete(key)).Commit()
	if err != nil {
		return false, classify(ctx, err)
	}
	return reply.Succeeded, nil
}

func (s *session) get(ctx context.Context, key string, opts ...clientv3.OpOption) (kvs []*mvccpb.KeyValue, err error) {
	err = s.ask(ctx, func(call context.Context) error {
		reply, err := s.e.client.Get(call, key, opts...)
		if err == nil {
			kvs = reply.Kvs
		}
		return err
	})
	return kvs, err
}
