package zklock

import (
	"context"

	"github.com/go-zookeeper/zk"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/zklock/internal/zkstore"
)

// leaveBatch is how many claims one Multi deletes at most.
const leaveBatch = 128

// LeaveAll leaves many claims: those that have one node each in Multis of many, the others
// one by one, side by side.
func (s *session) LeaveAll(ctx context.Context, cs []driver.Claim, out []error) {
	var batches [][]departing
	var single []int
	room := 0
	for i, c := range cs {
		d, ok := s.departureOf(c)
		if !ok {
			single = append(single, i)
			continue
		}
		d.index = i
		if size := 2*len(d.path) + 64; len(batches) == 0 || room < size || len(batches[len(batches)-1]) == leaveBatch {
			batches, room = append(batches, nil), zkstore.MaxRequest-size
		} else {
			room -= size
		}
		last := &batches[len(batches)-1]
		*last = append(*last, d)
	}
	_ = forEach(ctx, len(batches)+len(single), func(ctx context.Context, i int) error {
		if i < len(batches) {
			s.leaveTogether(ctx, batches[i], cs, out)
		} else {
			one := single[i-len(batches)]
			out[one] = s.Leave(ctx, cs[one])
		}
		return nil
	})
}

// A departing claim is one that one operation ends.
type departing struct {
	state *claimState
	index int // of the claim in its call
	path  string
	marks bool // see markAndDelete
}

// departureOf says how a claim is left with others; ok is false where it has to be left alone.
func (s *session) departureOf(c driver.Claim) (d departing, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	cs := s.claims[c.ID]
	if s.closed || cs == nil || cs.entering != nil || cs.claim.Try > c.Try || cs.mayExist || cs.node == "" {
		return d, false
	}
	return departing{cs, 0, s.e.linePath(cs.claim.Name) + "/" + cs.node, cs.handsOverLocked()}, true
}

// leaveTogether deletes the nodes of several claims in one Multi. Where one is not there,
// none is deleted: then each is left alone.
func (s *session) leaveTogether(ctx context.Context, all []departing, cs []driver.Claim, out []error) {
	var ops []any
	for _, d := range all {
		if d.marks {
			ops = append(ops, &zk.SetDataRequest{Path: d.path, Data: leftData, Version: -1})
		}
		ops = append(ops, &zk.DeleteRequest{Path: d.path, Version: -1})
	}
	err := s.begin(ctx)
	if err == nil {
		err = goneIfNoNode(s.zs.Call(ctx, func(c *zk.Conn) error {
			_, err := c.Multi(ops...)
			return err
		}))
	}
	if err != nil && !zkstore.OutcomeUnknown(err) && ctx.Err() == nil && !s.zs.Ended() {
		_ = forEach(ctx, len(all), func(ctx context.Context, i int) error {
			out[all[i].index] = s.Leave(ctx, cs[all[i].index])
			return nil
		})
		return
	}
	for _, d := range all {
		out[d.index] = err
		s.left(d.state, err)
	}
}
