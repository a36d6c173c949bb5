package etcdlock

import (
	"context"
	"slices"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/pawl-go/pawl/driver"
)

// Evict deletes the key of exactly the claim that x shows. Of one that waits, it
// is a condition that it still does: who was in the way must still be there.
func (e *Engine) Evict(ctx context.Context, x driver.Entry) error {
	if err := e.alive(ctx); err != nil {
		return err
	}
	line := e.space.line(x.Name)
	for {
		reply, err := e.get(ctx, line.from, clientv3.WithRange(line.to))
		if err != nil {
			return err
		}
		slices.SortFunc(reply.Kvs, byRevision)
		var ahead []mark // nearest first
		var found driver.Entry
		var at mark
		for _, kv := range reply.Kvs {
			m, err := line.markOf(kv)
			if err != nil {
				continue // what is not ours is not in this one's way
			}
			entry, err := line.entry(x.Name, kv)
			// An Enter of an earlier try that landed late has the same ID, or even another
			// key of the same try.
			if err == nil && entry.ID == x.ID && entry.Try == x.Try && (x.Fence == 0 || x.Fence == uint64(m.rev)) {
				found, at = entry, m
				break
			}
			ahead = slices.Insert(ahead, 0, m)
		}
		if at.key == "" {
			return driver.ErrGone
		}
		way := inTheWay(found.Claim, ahead)
		token := uint64(at.rev)
		if len(way) > 0 {
			token = 0
		}
		if x.Fence != token || x.Held != (len(way) == 0) {
			return driver.ErrGone
		}
		call, cancel := context.WithTimeout(ctx, longest)
		done, err := e.client.Txn(call).If(append(stand(way), created(at.key, at.rev))...).Then(clientv3.OpDelete(at.key)).Commit()
		cancel()
		if err != nil || done.Succeeded {
			return classify(ctx, err)
		}
	}
}

// stand compares each of way with itself. Those that a transaction has no room
// for are left out: then the claim may have come to be held a moment before.
func stand(way []mark) []clientv3.Cmp {
	var all []clientv3.Cmp
	for _, m := range way[:min(len(way), maxOps-1)] {
		all = append(all, created(m.key, m.rev))
	}
	return all
}
