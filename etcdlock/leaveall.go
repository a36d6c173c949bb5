package etcdlock

import (
	"context"
	"slices"
	"sync"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/etcdlock/internal/etcdstore"
)

// maxDeletions is how many transactions of one LeaveAll are under way at a time.
const maxDeletions = 16

// LeaveAll leaves many claims: those whose keys may be deleted unconditionally in
// transactions of many, the others one by one, side by side.
func (s *session) LeaveAll(ctx context.Context, cs []driver.Claim, out []error) {
	var together []deletion
	var calls []func()
	for i, c := range cs {
		if d, ok := s.deletionOf(c); ok {
			d.index = i
			together = append(together, d)
		} else {
			calls = append(calls, func() { out[i] = s.Leave(ctx, c) })
		}
	}
	for part := range slices.Chunk(together, etcdstore.MaxOps) {
		calls = append(calls, func() { s.deleteKeys(ctx, part, out) })
	}
	next := make(chan func())
	var work sync.WaitGroup // waited for below
	for range min(len(calls), maxDeletions) {
		work.Go(func() {
			for call := range next {
				call()
			}
		})
	}
	for _, call := range calls {
		next <- call // each returns soon after ctx ended
	}
	close(next)
	work.Wait()
}

// A deletion is the unconditional one of a claim's key.
type deletion struct {
	claim    *claimState
	index    int    // of the claim in its call
	answered func() // to be called when it is known to be done
}

// deletionOf begins the deletion of a claim of which one is enough.
func (s *session) deletionOf(c driver.Claim) (d deletion, ok bool) {
	s.mu.Lock()
	p := s.claims[c.ID]
	if ok = p != nil && p.claim.Try <= c.Try && !s.closed; ok {
		p.wait.close()
	}
	s.mu.Unlock()
	if !ok {
		return d, false
	}
	answered, ok := s.startDelete(p)
	return deletion{claim: p, answered: answered}, ok
}

// deleteKeys carries out deletions in one transaction. Without an answer their slots stay
// in use, as after deleteKey.
func (s *session) deleteKeys(ctx context.Context, all []deletion, out []error) {
	ops := make([]clientv3.Op, len(all))
	for i, d := range all {
		ops[i] = clientv3.OpDelete(d.claim.key)
	}
	reply, err := s.lease.Commit(ctx, nil, ops, nil)
	for i, d := range all {
		if out[d.index] = err; err != nil {
			continue
		}
		s.forget(d.claim)
		d.answered()
		if reply.Responses[i].GetResponseDeleteRange().Deleted == 0 {
			out[d.index] = driver.ErrGone
		}
	}
}
