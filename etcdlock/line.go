package etcdlock

import (
	"cmp"
	"slices"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/etcdlock/internal/etcdstore"
)

// A line is never read whole. A claim is kept from being held by the nearest claim ahead
// that cannot be held beside it or, where only the sum is too large, by no more of the
// nearest ones than its limit has units. The server finds those by create revision;
// only they are sent, and of most only the key.

// blockersOf returns the claims of ahead, nearest first, that keep c from being held:
// while all of them are in line c cannot be held, and when one leaves it may be. None: c
// is held. It is driver.Place for a reader that goes from c towards the head.
func blockersOf(c driver.Claim, ahead []claimKey) []claimKey {
	used := int64(c.Need)
	for i, k := range ahead {
		if c.Exclusive() || k.exclusive || int64(k.need)+int64(c.Need) > int64(c.Limit) {
			return ahead[i : i+1]
		}
		if used += int64(k.need); used > int64(c.Limit) {
			return ahead[:i+1]
		}
	}
	return nil
}

// isReader reports whether only an exclusive claim can keep c from being held: one-unit
// claims alone cannot use up All, no store has room for that many. It does not hold
// where others need several units of All at once.
func isReader(c driver.Claim) bool { return c.Limit == driver.All && c.Need == 1 }

// fewClaims is how many claims an Enter reads at most where it needs only one of them.
const fewClaims = 3

// aheadReads returns what must be read to know which claims are ahead of c. revision is
// c's place, or 0 where it is not in line yet and so comes after all: then any claims are
// read, as many as keep c from being held if there are so many. For a reader the
// claims of several units are only looked for, unless full is set.
func (l lineKeys) aheadReads(c driver.Claim, revision int64, full bool) []clientv3.Op {
	nearest := func(r etcdstore.Range, limit int) clientv3.Op {
		if revision == 0 {
			return r.Some(max(limit, fewClaims), clientv3.WithKeysOnly())
		}
		return r.Newest(limit, clientv3.WithKeysOnly(), clientv3.WithMaxCreateRev(revision-1))
	}
	switch {
	case c.Exclusive():
		return []clientv3.Op{nearest(l.all(), 1)}
	case isReader(c) && !full:
		return []clientv3.Op{nearest(l.exclusive(), 1), nearest(l.multiUnit(c.Limit), 1),
			l.limit(c.Limit).Read(clientv3.WithCountOnly())}
	}
	return []clientv3.Op{nearest(l.exclusive(), 1), nearest(l.limit(c.Limit), c.Limit)}
}

// A position is where a claim is in its line.
type position struct {
	blockers   []claimKey
	ahead      int64 // claims in line, as far as they matter to the claim's kind
	incomplete bool  // the line must be read in full to know
	long       bool  // it is blocked, and the blockers need not be the nearest ones: not all were read
	gone       bool  // the claim itself is not in line
}

// positionOf reads the replies to aheadReads.
func (l lineKeys) positionOf(c driver.Claim, replies []*pb.ResponseOp, full bool) (p position, err error) {
	var ahead []claimKey
	for i, reply := range replies {
		got := reply.GetResponseRange()
		keys, err := l.parseAll(got.Kvs)
		if err != nil {
			return p, err
		}
		if isReader(c) && !full && i == 1 {
			p.incomplete = len(keys) > 0
			continue // counted with the next
		}
		p.ahead += got.Count
		p.long = p.long || got.More
		ahead = append(ahead, keys...)
	}
	slices.SortFunc(ahead, func(a, b claimKey) int { return cmp.Compare(b.revision, a.revision) })
	p.blockers = blockersOf(c, ahead)
	p.incomplete = p.incomplete && len(p.blockers) == 0
	return p, nil
}

// watchRange is the range to watch to learn that any of blockers has left. Several
// blockers are all shared.
func (l lineKeys) watchRange(blockers []claimKey) etcdstore.Range {
	if len(blockers) == 1 {
		return etcdstore.Key(blockers[0].key)
	}
	return l.shared()
}

// holder makes an entry of the oldest key of a line, which is held; nil if there is none.
func (l lineKeys) holder(name string, oldest []*mvccpb.KeyValue) (*driver.Entry, error) {
	if len(oldest) == 0 {
		return nil, nil
	}
	e, err := l.entry(name, oldest[0])
	if err != nil {
		return nil, err
	}
	e.Held, e.Fence = true, uint64(oldest[0].CreateRevision)
	return &e, nil
}
