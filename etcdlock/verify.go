package etcdlock

import (
	"context"
	"slices"
	"sync"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/etcdlock/internal/etcdstore"
)

// A check is what one beat asks about one claim. key and revision are those of the time
// when the question was sent.
type check struct {
	index    int // of the claim in the beat
	claim    *claimState
	key      string
	revision int64

	answered bool
	found    bool  // the key is the claim's
	other    int64 // create revision of a key that is there and not the claim's
}

// verify answers in out for each of live, and reports whether one of them is missing.
//
// That the key exists proves nothing: after the claim was evicted, a late Enter may have
// put it again, behind the claim that holds the name since. The create revision is the
// claim's identity, so that is compared. One transaction has room for MaxOps claims;
// where all are as expected, nothing is read.
func (s *session) verify(ctx context.Context, live []driver.Claim, out []driver.Standing) (missing bool, err error) {
	checks := s.checks(live, out)
	errs := make([]error, (len(checks)+etcdstore.MaxOps-1)/etcdstore.MaxOps)
	var work sync.WaitGroup // waited for below
	for i := range errs {
		part := checks[i*etcdstore.MaxOps : min(len(checks), (i+1)*etcdstore.MaxOps)]
		work.Go(func() { errs[i] = s.compare(ctx, part) })
	}
	work.Wait()
	for _, orphan := range s.conclude(checks, out) {
		_, _ = s.lease.DeleteIf(ctx, orphan.key, etcdstore.CreatedAt(orphan.key, orphan.revision)) // else the next beat finds it
	}
	missing = slices.ContainsFunc(out, func(st driver.Standing) bool { return st.Gone })
	return missing, driver.Join(errs...)
}

// checks makes the questions of a beat. Claims of which nothing is known are gone.
func (s *session) checks(live []driver.Claim, out []driver.Standing) []check {
	checks := make([]check, 0, len(live))
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, c := range live {
		p := s.claims[c.ID]
		if p == nil || p.claim.Try != c.Try || p.left {
			out[i] = driver.Standing{Gone: true}
			continue
		}
		checks = append(checks, check{index: i, claim: p, key: p.key, revision: p.revision})
	}
	return checks
}

// compare asks the cluster about several claims at once. They are read only where one is
// not as expected: reading them always would double the cost.
func (s *session) compare(ctx context.Context, part []check) error {
	conditions := make([]clientv3.Cmp, len(part))
	for i, c := range part {
		conditions[i] = c.claim.owns(c.key, c.revision)
	}
	all, err := s.lease.Untimed().Check(ctx, part[0].key, conditions...)
	if err != nil {
		return err
	}
	if !all {
		return s.readEach(ctx, part)
	}
	for i := range part {
		part[i].answered, part[i].found = true, true
	}
	return nil
}

// readEach reads the keys of several claims, as of one revision.
func (s *session) readEach(ctx context.Context, part []check) error {
	reads := make([]clientv3.Op, len(part))
	for i, c := range part {
		reads[i] = clientv3.OpGet(c.key)
		if c.revision != 0 {
			clientv3.WithKeysOnly()(&reads[i])
		}
	}
	reply, err := s.lease.Untimed().Commit(ctx, nil, reads, nil)
	if err != nil {
		return err
	}
	for i := range part {
		c := &part[i]
		c.answered = true
		if kvs := reply.Responses[i].GetResponseRange().Kvs; len(kvs) > 0 {
			if c.found = c.matches(kvs[0]); !c.found {
				c.other = kvs[0].CreateRevision
			}
		}
	}
	return nil
}

// matches reports whether a key is the claim's.
func (c check) matches(kv *mvccpb.KeyValue) bool {
	if c.revision != 0 {
		return kv.CreateRevision == c.revision
	}
	return string(kv.Value) == c.claim.value
}

// conclude answers for the claims, forgets those that are gone, and returns the keys
// that were found in their place. Until a claim is forgotten here no other claim has
// its slot, so a key that was read there before belongs to no known claim.
func (s *session) conclude(checks []check, out []driver.Standing) (orphans []claimKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range checks {
		p := c.claim
		known := s.claims[p.claim.ID] == p && !p.left
		switch {
		case !known:
			out[c.index] = driver.Standing{Gone: true}
		case !c.answered || p.revision != c.revision || p.key != c.key: // not learnt, or entered again during the beat
		case c.found:
			out[c.index] = driver.Standing{Held: p.held, Ahead: -1, Valid: s.lease.TTL}
			if p.held {
				out[c.index].Token = uint64(c.revision)
			}
		default:
			out[c.index] = driver.Standing{Gone: true}
			if c.other != 0 {
				orphans, s.orphanSeen = append(orphans, claimKey{key: c.key, revision: c.other}), true
			}
			s.forgetLocked(p)
		}
	}
	return orphans
}
