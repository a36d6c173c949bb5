package etcdlock

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/pawl-go/pawl/driver"
)

// look asks the store how p stands, in one read.
//
// With a revision it is content with the state of any member that is at least so
// far, which costs no round of the cluster: nobody can come ahead of a claim, so
// that one who was at the head once stays there while its key does. Where the
// member that answers is behind, it is asked again for the cluster's own state.
func (s *session) look(ctx context.Context, p *spot, since int64) (driver.Standing, error) {
	s.mu.Lock()
	rev := p.rev
	s.mu.Unlock()
	v, now, err := s.read(ctx, p, rev, since > 0, false)
	if err == nil && since > 0 && now < max(since, rev) && (v.gone || len(v.way) > 0) {
		v, _, err = s.read(ctx, p, rev, false, false)
	}
	if err == nil && v.vague {
		v, _, err = s.read(ctx, p, rev, false, true)
	}
	if err != nil {
		return driver.Standing{}, err
	}
	if v.gone {
		s.forget(p)
		return driver.Standing{Gone: true}, nil
	}
	return s.standing(p, v), nil
}

// read reads p's line, as of the revision it returns.
func (s *session) read(ctx context.Context, p *spot, rev int64, local, all bool) (v view, now int64, err error) {
	ops := append(p.line.reads(p.claim, rev, all), clientv3.OpGet(p.key, clientv3.WithKeysOnly()))
	if local {
		for i := range ops {
			clientv3.WithSerializable()(&ops[i])
		}
	}
	var reply *clientv3.TxnResponse
	err = s.ask(ctx, func(call context.Context) (err error) {
		reply, err = s.e.client.Txn(call).Then(ops...).Commit()
		return err
	})
	if err != nil {
		return v, 0, err
	}
	last := len(reply.Responses) - 1
	if v, err = p.line.viewOf(p.claim, reply.Responses[:last], all); err != nil {
		return v, 0, err
	}
	own := reply.Responses[last].GetResponseRange().Kvs
	v.gone = len(own) == 0 || own[0].CreateRevision != rev
	return v, reply.Header.Revision, nil
}
