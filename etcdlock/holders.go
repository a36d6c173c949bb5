package etcdlock

import (
	"context"
	"sync"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/etcdlock/internal/etcdstore"
)

// A holderCache has the claims that were last seen at the head of lines, and so hold
// their names. To find the head, the server walks the line; so one question is asked
// for all waiters of an engine.
type holderCache struct {
	store *etcdstore.Store

	mu     sync.Mutex // guards what follows; taken before the locks of the store
	byName map[string]*cachedHolder
}

type cachedHolder struct {
	entry  *driver.Entry // nil: there was none, or it could not be learnt
	at     time.Time     // when it was asked for
	lookup etcdstore.SharedCall
}

func newHolderCache(store *etcdstore.Store) *holderCache {
	return &holderCache{store: store, byName: map[string]*cachedHolder{}}
}

// maxHolders is how many holders are cached. Forgetting one costs one call.
const maxHolders = 1000

// holder returns the claim at the head of p's line, if it can be learnt. The longer p has
// waited, the older the answer may be: up to half of that time, and at most a minute.
func (h *holderCache) holder(ctx context.Context, p *claimState, calls etcdstore.Calls) *driver.Entry {
	maxAge := min(max(time.Since(p.since)/2, time.Second), time.Minute)
	h.mu.Lock()
	cached := h.byName[p.claim.Name]
	if cached == nil {
		if len(h.byName) >= maxHolders {
			clear(h.byName)
		}
		cached = &cachedHolder{}
		h.byName[p.claim.Name] = cached
	}
	if time.Since(cached.at) > maxAge {
		found := h.store.Share(&cached.lookup, func(ctx context.Context) { h.find(ctx, cached, p, calls) })
		h.mu.Unlock()
		select {
		case <-found:
		case <-ctx.Done():
			return nil
		}
		h.mu.Lock()
	}
	defer h.mu.Unlock()
	if cached.entry == nil {
		return nil
	}
	entry := *cached.entry
	entry.Since += time.Since(cached.at)
	return &entry
}

// find asks the store. A foreign key at the head is not the waiter's fault, and is not
// reported here.
func (h *holderCache) find(ctx context.Context, cached *cachedHolder, p *claimState, calls etcdstore.Calls) {
	var entry *driver.Entry
	begun := time.Now()
	if reply, err := calls.Do(ctx, p.line.all().Oldest()); err == nil {
		entry, _ = p.line.holder(p.claim.Name, reply.Get().Kvs)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	cached.entry, cached.at = entry, begun
}
