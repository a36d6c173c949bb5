package etcdlock

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"math"
	"slices"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/pawl-go/pawl/driver"
)

// page is how many keys List reads at a time.
const page = 500

// List yields the claims on names that begin with prefix, line by line. It asks
// once for each session how much time it has left. etcd tells no time: Since
// compares the clock of who entered with that of who lists, and counts from the
// claim's arrival. A key in a line that is not pawl's is shown as foreign.
func (e *Engine) List(ctx context.Context, prefix string) iter.Seq2[driver.Entry, error] {
	return func(yield func(driver.Entry, error) bool) {
		if err := e.alive(ctx); err != nil {
			yield(driver.Entry{}, err)
			return
		}
		l := lister{e: e, left: map[int64]time.Duration{}, leases: math.MaxInt}
		for kvs, err := range e.lines(ctx, prefix) {
			if err != nil {
				yield(driver.Entry{}, err)
				return
			}
			for _, entry := range l.line(ctx, kvs) {
				if !yield(entry, nil) {
					return
				}
			}
		}
	}
}

// lines yields the keys of one name after the other.
func (e *Engine) lines(ctx context.Context, prefix string) iter.Seq2[[]*mvccpb.KeyValue, error] {
	return func(yield func([]*mvccpb.KeyValue, error) bool) {
		var line []*mvccpb.KeyValue
		name := ""
		for kv, err := range e.keys(ctx, e.space.names(prefix)) {
			if err != nil {
				yield(nil, err)
				return
			}
			n, _, claimed := strings.Cut(string(kv.Key), nameEnds)
			if !claimed {
				continue // in no line, and in nobody's way
			}
			if n != name && len(line) > 0 {
				if !yield(line, nil) {
					return
				}
				line = nil
			}
			line, name = append(line, kv), n
		}
		if len(line) > 0 {
			yield(line, nil)
		}
	}
}

// keys yields what is stored under keys that begin with prefix, all of one
// revision unless that is compacted away meanwhile.
func (e *Engine) keys(ctx context.Context, prefix string) iter.Seq2[*mvccpb.KeyValue, error] {
	return func(yield func(*mvccpb.KeyValue, error) bool) {
		from, rev := prefix, int64(0)
		for {
			reply, err := e.get(ctx, from, clientv3.WithRange(clientv3.GetPrefixRangeEnd(prefix)),
				clientv3.WithLimit(page), clientv3.WithRev(rev))
			if errors.Is(err, rpctypes.ErrCompacted) && rev != 0 {
				rev = 0
				continue
			}
			if err != nil {
				yield(nil, err)
				return
			}
			for _, kv := range reply.Kvs {
				if !yield(kv, nil) {
					return
				}
			}
			if !reply.More {
				return
			}
			from, rev = string(reply.Kvs[len(reply.Kvs)-1].Key)+"\x00", reply.Header.Revision
		}
	}
}

// A lister makes entries of keys.
type lister struct {
	e      *Engine
	left   map[int64]time.Duration // by lease
	leases int                     // how many it asks at most
}

// line makes entries of the keys of one name, in the line's order.
func (l *lister) line(ctx context.Context, kvs []*mvccpb.KeyValue) []driver.Entry {
	slices.SortFunc(kvs, byRevision)
	path, _, _ := strings.Cut(string(kvs[0].Key), nameEnds)
	name := strings.TrimPrefix(path, l.e.space.names(""))
	all, ours := make([]driver.Entry, len(kvs)), make([]driver.Entry, 0, len(kvs))
	line := l.e.space.line(name)
	for i, kv := range kvs {
		entry, err := line.entry(name, kv)
		if err != nil {
			all[i] = driver.Entry{Claim: driver.Claim{Name: name, Note: strings.ToValidUTF8(string(kv.Key), "?")}, Held: true, Foreign: true}
			continue
		}
		entry.Left = l.leftOf(ctx, kv.Lease)
		all[i], ours = entry, append(ours, entry)
	}
	for i := range all {
		if all[i].Foreign {
			continue
		}
		if all[i].Held, _, _, _ = driver.Place(ours, all[i].ID); all[i].Held {
			all[i].Fence = uint64(kvs[i].CreateRevision)
		}
	}
	return all
}

func byRevision(a, b *mvccpb.KeyValue) int { return cmp.Compare(a.CreateRevision, b.CreateRevision) }

// leftOf asks how long a lease has left; 0 if it cannot be learnt.
func (l *lister) leftOf(ctx context.Context, lease int64) time.Duration {
	if left, asked := l.left[lease]; asked || len(l.left) >= l.leases {
		return left
	}
	var left time.Duration
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	if got, err := l.e.client.TimeToLive(ctx, clientv3.LeaseID(lease)); err == nil {
		left = max(0, time.Duration(got.TTL)*time.Second)
	}
	l.left[lease] = left
	return left
}

// headLeases is about how many leases Line asks: those of the first in line, who hold
// the name.
const headLeases = 2

// Line returns the claims of one name. It reads their range of keys, in which no other
// name has one, and asks how much time those at its head have left.
func (e *Engine) Line(ctx context.Context, name string) ([]driver.Entry, error) {
	if err := e.alive(ctx); err != nil {
		return nil, err
	}
	line := e.space.line(name)
	reply, err := e.get(ctx, line.from, clientv3.WithRange(line.to))
	if err != nil || len(reply.Kvs) == 0 {
		return nil, err
	}
	l := lister{e: e, left: map[int64]time.Duration{}, leases: headLeases}
	return l.line(ctx, reply.Kvs), nil
}
