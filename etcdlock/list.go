package etcdlock

import (
	"cmp"
	"context"
	"iter"
	"math"
	"slices"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/etcdlock/internal/etcdstore"
)

// pageSize is how many keys List reads at a time.
const pageSize = 500

// List yields the claims on names that begin with prefix, line by line. It asks once
// for each session how much time it has left. etcd stores no time: Since compares the
// clock of the client that entered with that of the client that lists, and counts from
// the claim's arrival. A key in a line that pawl did not write is shown as foreign.
func (e *Engine) List(ctx context.Context, prefix string) iter.Seq2[driver.Entry, error] {
	return func(yield func(driver.Entry, error) bool) {
		if err := e.ready(ctx); err != nil {
			yield(driver.Entry{}, err)
			return
		}
		left := map[int64]time.Duration{}
		for kvs, err := range e.lines(ctx, prefix) {
			if err != nil {
				yield(driver.Entry{}, err)
				return
			}
			for _, entry := range e.entries(ctx, kvs, left, math.MaxInt) {
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
		for kv, err := range e.scan(ctx, e.keys.names(prefix)) {
			if err != nil {
				yield(nil, err)
				return
			}
			n, _, claimed := strings.Cut(string(kv.Key), nameEnds)
			if !claimed {
				continue // the key is in no line, and blocks no claim
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

// scan yields what is stored under keys that begin with prefix, all of one revision
// unless that is compacted away during the scan.
func (e *Engine) scan(ctx context.Context, prefix string) iter.Seq2[*mvccpb.KeyValue, error] {
	return func(yield func(*mvccpb.KeyValue, error) bool) {
		keys, revision := etcdstore.Range{From: prefix, To: clientv3.GetPrefixRangeEnd(prefix)}, int64(0)
		for {
			reply, err := e.store.Get(ctx, keys, clientv3.WithLimit(pageSize), clientv3.WithRev(revision))
			if etcdstore.Compacted(err) && revision != 0 {
				revision = 0
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
			keys.From, revision = string(reply.Kvs[len(reply.Kvs)-1].Key)+"\x00", reply.Header.Revision
		}
	}
}

// entries makes entries of the keys of one name, in the line's order. left has the time
// that leases have left; entries adds to it, and asks for no more than maxLeases.
func (e *Engine) entries(ctx context.Context, kvs []*mvccpb.KeyValue, left map[int64]time.Duration, maxLeases int) []driver.Entry {
	slices.SortFunc(kvs, byRevision)
	path, _, _ := strings.Cut(string(kvs[0].Key), nameEnds)
	name := strings.TrimPrefix(path, e.keys.names(""))
	all, ours := make([]driver.Entry, len(kvs)), make([]driver.Entry, 0, len(kvs))
	line := e.keys.line(name)
	for i, kv := range kvs {
		entry, err := line.entry(name, kv)
		if err != nil {
			all[i] = driver.Entry{Claim: driver.Claim{Name: name, Note: strings.ToValidUTF8(string(kv.Key), "?")}, Held: true, Foreign: true}
			continue
		}
		entry.Left = e.timeLeft(ctx, kv.Lease, left, maxLeases)
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

// timeLeft asks how long a lease has left; 0 if it cannot be learnt.
func (e *Engine) timeLeft(ctx context.Context, lease int64, left map[int64]time.Duration, maxLeases int) time.Duration {
	if _, asked := left[lease]; asked || len(left) >= maxLeases {
		return left[lease]
	}
	left[lease] = 0
	if got, err := e.store.TimeToLive(ctx, clientv3.LeaseID(lease)); err == nil {
		left[lease] = max(0, time.Duration(got.TTL)*time.Second)
	}
	return left[lease]
}

// lineLeases is how many leases Line asks for: those of the first claims in line, which
// hold the name.
const lineLeases = 2

// Line returns the claims of one name. It reads their range of keys, in which no other
// name has any, and asks how much time the first of them have left.
func (e *Engine) Line(ctx context.Context, name string) ([]driver.Entry, error) {
	if err := e.ready(ctx); err != nil {
		return nil, err
	}
	reply, err := e.store.Get(ctx, e.keys.line(name).all())
	if err != nil || len(reply.Kvs) == 0 {
		return nil, err
	}
	return e.entries(ctx, reply.Kvs, map[int64]time.Duration{}, lineLeases), nil
}
