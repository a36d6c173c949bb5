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

// An attempt is one claim's part of the transaction of an Enter: the conditions under
// which its key is put, and what is read in the same step.
//
// A claim that queues is put behind the claims in line, and reads which those are, if
// they are few: of a long line it learns only that it must wait. A claim that does not
// queue is put only where it is held at once. For exclusive claims and readers a
// comparison says so. Comparisons cannot add units up: for the others the line is read
// first, and the condition is that no claim has entered since.
type attempt struct {
	*claimState
	conditions []clientv3.Cmp
	ops        []clientv3.Op // the put is last: what is read before it is what is ahead
	aheadReads int           // how many of ops read what is ahead
	fitsAt     int64         // the revision at which the line had room for the claim; 0: not read
}

func (a *attempt) compose(lease clientv3.LeaseID) {
	c, l := a.claim, a.line
	put := clientv3.OpPut(a.key, a.value, clientv3.WithLease(lease))
	free := etcdstore.CreatedAt(a.key, 0)
	a.aheadReads = 0
	switch {
	case c.Exclusive() && c.Queue:
		a.conditions, a.ops, a.aheadReads = []clientv3.Cmp{free}, []clientv3.Op{l.all().Some(fewClaims), put}, 1
	case c.Queue:
		others := l.otherLimits(c.Limit)
		a.conditions = []clientv3.Cmp{free, others[0].Empty(), others[1].Empty()}
		a.ops = l.aheadReads(c, 0, false)
		a.aheadReads = len(a.ops)
		a.ops = append(a.ops, l.all().Some(fewClaims), put)
	case a.fitsAt != 0:
		a.conditions, a.ops = []clientv3.Cmp{free, l.all().UnchangedSince(a.fitsAt)}, []clientv3.Op{put}
	case isReader(c):
		others := l.otherLimits(c.Limit)
		a.conditions = []clientv3.Cmp{free, l.exclusive().Empty(), l.multiUnit(c.Limit).Empty(), others[0].Empty(), others[1].Empty()}
		a.ops = []clientv3.Op{put}
	default:
		a.conditions, a.ops = []clientv3.Cmp{l.all().Empty()}, []clientv3.Op{put}
	}
}

// holder returns the claim at the head of the line, from the replies to ops; nil: the line
// is too long to know.
func (a *attempt) holder(replies []*pb.ResponseOp) (*driver.Entry, error) {
	got := replies[len(replies)-2].GetResponseRange() // the one before the put's
	if got.More {
		return nil, nil
	}
	slices.SortFunc(got.Kvs, func(a, b *mvccpb.KeyValue) int { return cmp.Compare(a.CreateRevision, b.CreateRevision) })
	return a.line.holder(a.claim.Name, got.Kvs)
}

// refusalReads is what is read to learn why the conditions did not hold; refusal takes
// the replies.
func (a *attempt) refusalReads() []clientv3.Op {
	c, l := a.claim, a.line
	ops := []clientv3.Op{clientv3.OpGet(a.key)}
	if !c.Exclusive() {
		others := l.otherLimits(c.Limit)
		ops = append(ops, others[0].Any(), others[1].Any())
	}
	if c.Queue {
		return ops
	}
	if !c.Exclusive() {
		ops = append(ops, l.aheadReads(c, 0, true)...)
	}
	return append(ops, l.all().Oldest())
}

// A refusalReason says why an attempt was refused.
type refusalReason int

const (
	notRefused     refusalReason = iota // nothing blocks this attempt
	alreadyEntered                      // its key is there, put by an earlier call
	keyTaken                            // its key is there and another claim's
	limitDiffers                        // others share the line under another limit
	nameHeld                            // other claims are ahead
)

type refusal struct {
	reason   refusalReason
	revision int64 // of the key that is there
	ahead    int
	holder   *driver.Entry
}

// refusal reads the replies to refusalReads, as of revision now.
func (a *attempt) refusal(replies []*pb.ResponseOp, now int64) (r refusal, err error) {
	c := a.claim
	r.ahead = -1
	own, replies := replies[0].GetResponseRange(), replies[1:]
	if len(own.Kvs) > 0 {
		r.reason, r.revision = keyTaken, own.Kvs[0].CreateRevision
		if string(own.Kvs[0].Value) == a.value {
			r.reason = alreadyEntered
		}
		return r, nil
	}
	if !c.Exclusive() {
		for _, other := range replies[:2] {
			if len(other.GetResponseRange().Kvs) > 0 {
				r.reason = limitDiffers
				return r, nil
			}
		}
		replies = replies[2:]
	}
	if c.Queue {
		return r, nil
	}
	reads, oldest := replies[:len(replies)-1], replies[len(replies)-1].GetResponseRange()
	if r.holder, err = a.line.holder(c.Name, oldest.Kvs); err != nil {
		return r, err
	}
	if c.Exclusive() {
		if oldest.Count > 0 {
			r.reason, r.ahead = nameHeld, int(oldest.Count)
		}
		return r, nil
	}
	at, err := a.line.positionOf(c, reads, true)
	if err != nil {
		return r, err
	}
	if r.ahead = int(at.ahead); len(at.blockers) > 0 {
		r.reason = nameHeld
	} else {
		a.fitsAt = now
	}
	return r, nil
}
