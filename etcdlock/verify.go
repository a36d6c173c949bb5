package etcdlock

import (
	"context"
	"slices"
	"sync"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/pawl-go/pawl/driver"
)

// A check is what one beat asks about one claim. Its fields are as they were when the
// question was sent.
type check struct {
	at  int // index of the claim in the beat
	p   *spot
	key string
	rev int64

	asked bool  // there was an answer
	found bool  // the key is the claim's
	other int64 // create revision of a key that is there and not the claim's
}

// verify answers in out for each of live, and reports whether one of them is missing.
//
// The key alone says nothing: it may be there because an Enter that was held up has
// landed after the claim was evicted, behind whoever holds the name since. The create
// revision is the claim's identity, so that is what is compared. One transaction has
// room for maxOps claims; where all are as they should be, nothing is read.
func (s *session) verify(ctx context.Context, live []driver.Claim, out []driver.Standing) (missing bool, err error) {
	checks := s.checks(live, out)
	errs := make([]error, (len(checks)+maxOps-1)/maxOps)
	var work sync.WaitGroup // waited for below
	for i := range errs {
		some := checks[i*maxOps : min(len(checks), (i+1)*maxOps)]
		work.Go(func() { errs[i] = s.compare(ctx, some) })
	}
	work.Wait()
	strays := s.conclude(checks, out)
	for _, m := range strays {
		_, _ = s.remove(ctx, m.key, created(m.key, m.rev)) // the next beat finds it otherwise
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
		p := s.spots[c.ID]
		if p == nil || p.claim.Try != c.Try || p.left {
			out[i] = driver.Standing{Gone: true}
			continue
		}
		checks = append(checks, check{at: i, p: p, key: p.key, rev: p.rev})
	}
	return checks
}

// compare asks the cluster about some claims at once. Only where one of them is not as
// it should be are they read: to ask for that beforehand would be as much again.
func (s *session) compare(ctx context.Context, some []check) error {
	ifs := make([]clientv3.Cmp, len(some))
	for i, c := range some {
		ifs[i] = c.p.same(c.rev)
	}
	// It is the read in it that has the cluster asked, and not one member.
	reply, err := s.e.client.Txn(ctx).If(ifs...).Then(clientv3.OpGet(some[0].key, clientv3.WithCountOnly())).Commit()
	if err != nil {
		return classify(ctx, err)
	}
	if !reply.Succeeded {
		return s.readEach(ctx, some)
	}
	for i := range some {
		some[i].asked, some[i].found = true, true
	}
	return nil
}

// readEach reads the keys of some claims, as of one revision.
func (s *session) readEach(ctx context.Context, some []check) error {
	reads := make([]clientv3.Op, len(some))
	for i, c := range some {
		reads[i] = clientv3.OpGet(c.key)
		if c.rev != 0 {
			clientv3.WithKeysOnly()(&reads[i])
		}
	}
	reply, err := s.e.client.Txn(ctx).Then(reads...).Commit()
	if err != nil {
		return classify(ctx, err)
	}
	for i := range some {
		c := &some[i]
		c.asked = true
		if kvs := reply.Responses[i].GetResponseRange().Kvs; len(kvs) > 0 {
			if c.found = c.is(kvs[0]); !c.found {
				c.other = kvs[0].CreateRevision
			}
		}
	}
	return nil
}

// is reports whether a key is the claim's.
func (c check) is(kv *mvccpb.KeyValue) bool {
	if c.rev != 0 {
		return kv.CreateRevision == c.rev
	}
	return string(kv.Value) == c.p.label
}

// conclude answers for the claims, forgets those that are gone, and returns the keys
// that stand where such a one stood. Until it is forgotten here, nobody else has its
// slot, so that what was read there before is of no claim that anybody knows.
func (s *session) conclude(checks []check, out []driver.Standing) (strays []mark) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range checks {
		known := s.spots[c.p.claim.ID] == c.p && !c.p.left
		switch {
		case !known:
			out[c.at] = driver.Standing{Gone: true}
		case !c.asked || c.p.rev != c.rev || c.p.key != c.key: // not learnt, or it was entered anew meanwhile
		case c.found:
			out[c.at] = driver.Standing{Held: c.p.held, Ahead: -1, Valid: s.ttl}
			if c.p.held {
				out[c.at].Token = uint64(c.rev)
			}
		default:
			out[c.at] = driver.Standing{Gone: true}
			if c.other != 0 {
				strays, s.doubtful = append(strays, mark{key: c.key, rev: c.other}), true
			}
			s.forgetLocked(c.p)
		}
	}
	return strays
}
