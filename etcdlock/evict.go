package etcdlock

import (
	"context"
	"slices"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/etcdlock/internal/etcdstore"
)

// Evict deletes the key of exactly the claim that x shows. A claim that waits is deleted
// on the condition that it still waits: its blockers must still be in line.
func (e *Engine) Evict(ctx context.Context, x driver.Entry) error {
	if err := e.ready(ctx); err != nil {
		return err
	}
	line := e.keys.line(x.Name)
	for {
		reply, err := e.store.Get(ctx, line.all())
		if err != nil {
			return err
		}
		found, blockers := line.locate(x, reply.Kvs)
		token := uint64(0)
		if len(blockers) == 0 {
			token = uint64(found.revision)
		}
		if found.key == "" || x.Fence != token || x.Held != (len(blockers) == 0) {
			return driver.ErrGone
		}
		conditions := append(inLine(blockers), etcdstore.CreatedAt(found.key, found.revision))
		if deleted, err := e.store.DeleteIf(ctx, found.key, conditions...); err != nil || deleted {
			return err
		}
	}
}

// locate finds the claim that x shows among the keys of its line, and its blockers. The
// zero claimKey says that it is not there.
func (l lineKeys) locate(x driver.Entry, kvs []*mvccpb.KeyValue) (found claimKey, blockers []claimKey) {
	slices.SortFunc(kvs, byRevision)
	var ahead []claimKey // nearest first
	for _, kv := range kvs {
		k, err := l.parse(kv)
		if err != nil {
			continue // a foreign key blocks no claim
		}
		entry, err := l.entry(x.Name, kv)
		// An Enter that arrived late, of an earlier try or even of the same one, has put
		// another key with the same ID.
		if err == nil && entry.ID == x.ID && entry.Try == x.Try && (x.Fence == 0 || x.Fence == uint64(k.revision)) {
			return k, blockersOf(entry.Claim, ahead)
		}
		ahead = slices.Insert(ahead, 0, k)
	}
	return claimKey{}, nil
}

// inLine holds while all of keys are in line. Keys beyond the size of a transaction are
// left out: then the claim may have come to be held a moment before.
func inLine(keys []claimKey) []clientv3.Cmp {
	var all []clientv3.Cmp
	for _, k := range keys[:min(len(keys), etcdstore.MaxOps-1)] {
		all = append(all, etcdstore.CreatedAt(k.key, k.revision))
	}
	return all
}
