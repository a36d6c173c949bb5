package etcdlock

import (
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/pawl-go/pawl/driver"
)

// A plan is one claim's part of a transaction: what must be so for its key to be
// put, and what is read then.
//
// A claim that queues is put behind whoever is there, and reads who that is. Where
// nobody was met before it is bold: it is put if the line is empty, and nothing
// need be read. A claim that does not queue is put only where it is held at once. For exclusive claims and readers a comparison
// says so. A sum is beyond comparisons: there the line is read, and what was read
// is made the condition, that nobody has entered since.
type plan struct {
	ifs   []clientv3.Cmp
	then  []clientv3.Op // the put is last: what is read before it is who is ahead
	reads int           // how many of then tell who is ahead
	bold  bool          // it counts on an empty line
	seen  int64         // the revision at which the claim was seen to fit; 0: not seen
}

func (n *plan) make(p *spot, lease clientv3.LeaseID) {
	c, r := p.claim, p.line
	put := clientv3.OpPut(p.key, p.label, clientv3.WithLease(lease))
	free := created(p.key, 0)
	n.reads = 0
	switch {
	case c.Exclusive() && n.bold:
		n.ifs, n.then = []clientv3.Cmp{r.empty()}, []clientv3.Op{put}
	case c.Exclusive() && c.Queue:
		n.ifs, n.then, n.reads = []clientv3.Cmp{free}, []clientv3.Op{r.last(), put}, 1
	case c.Queue:
		others := r.others(c.Limit)
		n.ifs = []clientv3.Cmp{free, others[0].empty(), others[1].empty()}
		n.then = r.reads(c, 0, false)
		n.reads = len(n.then)
		n.then = append(n.then, r.first(), put)
	case n.seen != 0:
		n.ifs, n.then = []clientv3.Cmp{free, r.unentered(n.seen)}, []clientv3.Op{put}
	case reader(c):
		others := r.others(c.Limit)
		n.ifs = []clientv3.Cmp{free, r.whole().empty(), r.several(c.Limit).empty(), others[0].empty(), others[1].empty()}
		n.then = []clientv3.Op{put}
	default:
		n.ifs, n.then = []clientv3.Cmp{r.empty()}, []clientv3.Op{put}
	}
}

// reasons are what is read to say why a plan was not carried out; verdict takes
// the answers.
func (n *plan) reasons(p *spot) []clientv3.Op {
	c, r := p.claim, p.line
	ops := []clientv3.Op{clientv3.OpGet(p.key)}
	if !c.Exclusive() {
		others := r.others(c.Limit)
		ops = append(ops, others[0].any(), others[1].any())
	}
	if c.Queue {
		return ops
	}
	if !c.Exclusive() {
		ops = append(ops, r.reads(c, 0, true)...)
	}
	return append(ops, r.first())
}

// holder returns who is at the head of the line, from the answers to then. An
// exclusive claim has read the one before it, which need not be that: then nil.
func (n *plan) holder(p *spot, replies []*pb.ResponseOp) (*driver.Entry, error) {
	got := replies[len(replies)-2].GetResponseRange() // the one before the put's
	if p.claim.Exclusive() && got.Count != 1 {
		return nil, nil
	}
	return p.line.holder(p.claim.Name, got)
}

// A reason says why a plan was not carried out.
type reason int

const (
	isClear   reason = iota // nothing is in the way of this one
	isPresent               // its key is there, put by an earlier call
	isOther                 // its key is there and another claim's
	isClash                 // others share the line under another limit
	isBusy                  // somebody is in the way
)

type verdict struct {
	why    reason
	rev    int64 // of the key that is present
	ahead  int
	holder *driver.Entry
}

// verdict reads the answers to reasons, as of revision now.
func (n *plan) verdict(p *spot, replies []*pb.ResponseOp, now int64) (v verdict, err error) {
	c, r := p.claim, p.line
	v.ahead = -1
	own, replies := replies[0].GetResponseRange(), replies[1:]
	if len(own.Kvs) > 0 {
		v.why, v.rev = isOther, own.Kvs[0].CreateRevision
		if string(own.Kvs[0].Value) == p.label {
			v.why = isPresent
		}
		return v, nil
	}
	if !c.Exclusive() {
		for _, other := range replies[:2] {
			if len(other.GetResponseRange().Kvs) > 0 {
				v.why = isClash
				return v, nil
			}
		}
		replies = replies[2:]
	}
	if c.Queue {
		return v, nil
	}
	reads, first := replies[:len(replies)-1], replies[len(replies)-1].GetResponseRange()
	if v.holder, err = r.holder(c.Name, first); err != nil {
		return v, err
	}
	if c.Exclusive() {
		if first.Count > 0 {
			v.why, v.ahead = isBusy, int(first.Count)
		}
		return v, nil
	}
	line, err := r.viewOf(c, reads, true)
	if err != nil {
		return v, err
	}
	if v.ahead = int(line.count); len(line.way) > 0 {
		v.why = isBusy
	} else {
		n.seen = now
	}
	return v, nil
}
