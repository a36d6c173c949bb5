package etcdlock

import (
	"cmp"
	"slices"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/pawl-go/pawl/driver"
)

// A line is never read whole: what matters to a claim is the nearest one ahead
// that cannot be held beside it, and where only a sum is in the way, no more of
// the nearest than its limit has units. The server finds them by create
// revision; only they come over the wire, and of most only the key.

// inTheWay returns the claims of ahead, which has the nearest first, that keep c
// from being held: while all of them stand there it cannot be, and when one goes
// it may be. None: c is held. It is driver.Place for one who reads backwards.
func inTheWay(c driver.Claim, ahead []mark) []mark {
	used := int64(c.Need)
	for i, m := range ahead {
		if c.Exclusive() || m.whole || int64(m.need)+int64(c.Need) > int64(c.Limit) {
			return ahead[i : i+1]
		}
		if used += int64(m.need); used > int64(c.Limit) {
			return ahead[:i+1]
		}
	}
	return nil
}

// reader reports whether c is one of those that only an exclusive claim can keep
// out: readers alone cannot use up All, there is no store that large. It does
// not hold where others take several units of All at once.
func reader(c driver.Claim) bool { return c.Limit == driver.All && c.Need == 1 }

// reads returns what must be read to know who is ahead of c. rev is c's own
// place, or 0 where it is not in line yet and so comes after all.
func (r span) reads(c driver.Claim, rev int64, all bool) []clientv3.Op {
	nearest := func(s span, limit int) clientv3.Op {
		return clientv3.OpGet(s.from, append(before(rev), clientv3.WithRange(s.to), clientv3.WithKeysOnly(),
			clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortDescend), clientv3.WithLimit(int64(limit)))...)
	}
	switch {
	case c.Exclusive():
		return []clientv3.Op{nearest(r, 1)}
	case reader(c) && !all:
		of := r.of(c.Limit)
		return []clientv3.Op{nearest(r.whole(), 1), nearest(r.several(c.Limit), 1),
			clientv3.OpGet(of.from, clientv3.WithRange(of.to), clientv3.WithCountOnly())}
	}
	return []clientv3.Op{nearest(r.whole(), 1), nearest(r.of(c.Limit), c.Limit)}
}

// last reads who came last, with its value: for one who enters behind it, it is
// the one in the way, and where it is alone it is the holder.
func (r span) last() clientv3.Op {
	return clientv3.OpGet(r.from, clientv3.WithRange(r.to),
		clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortDescend), clientv3.WithLimit(1))
}

// before leaves out what came after rev.
func before(rev int64) []clientv3.OpOption {
	if rev == 0 {
		return nil
	}
	return []clientv3.OpOption{clientv3.WithMaxCreateRev(rev - 1)}
}

// A view is what was read of a line.
type view struct {
	way   []mark // who keeps the claim from being held
	count int64  // how many were in line, as far as the claim's kind has to do with them
	vague bool   // it must be read again, in full
	gone  bool   // the claim itself is not in it
}

// viewOf makes a view of the replies to reads.
func (r span) viewOf(c driver.Claim, replies []*pb.ResponseOp, all bool) (v view, err error) {
	var ahead []mark
	for i, reply := range replies {
		got := reply.GetResponseRange()
		marks, err := r.marksOf(got.Kvs)
		if err != nil {
			return v, err
		}
		several := reader(c) && !all && i == 1
		if several {
			v.vague = len(marks) > 0
			continue // counted with the next
		}
		v.count += got.Count
		ahead = append(ahead, marks...)
	}
	slices.SortFunc(ahead, func(a, b mark) int { return cmp.Compare(b.rev, a.rev) })
	v.way = inTheWay(c, ahead)
	v.vague = v.vague && len(v.way) == 0
	return v, nil
}

// first reads the claim at the head of the line, which is held.
func (r span) first() clientv3.Op {
	return clientv3.OpGet(r.from, clientv3.WithRange(r.to),
		clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend), clientv3.WithLimit(1))
}

// holder makes an entry of the reply to first.
func (r span) holder(name string, reply *pb.RangeResponse) (*driver.Entry, error) {
	if len(reply.Kvs) == 0 {
		return nil, nil
	}
	e, err := r.entry(name, reply.Kvs[0])
	if err != nil {
		return nil, err
	}
	e.Held, e.Fence = true, uint64(reply.Kvs[0].CreateRevision)
	return &e, nil
}

// empty compares a span with nothing.
func (r span) empty() clientv3.Cmp {
	return clientv3.Compare(clientv3.CreateRevision(r.from), "=", 0).WithRange(r.to)
}

// unentered holds if nobody has entered the span since rev.
func (r span) unentered(rev int64) clientv3.Cmp {
	return clientv3.Compare(clientv3.ModRevision(r.from), "<", rev+1).WithRange(r.to)
}

// others are the spans of the parts under another limit than c's.
func (r span) others(limit int) [2]span {
	parts, mine := r.parts(), r.of(limit)
	return [2]span{{parts.from, mine.from}, {mine.to, parts.to}}
}

// any reads whether a span has a key.
func (r span) any() clientv3.Op {
	return clientv3.OpGet(r.from, clientv3.WithRange(r.to), clientv3.WithKeysOnly(), clientv3.WithLimit(1))
}
