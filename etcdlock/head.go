package etcdlock

import (
	"context"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/pawl-go/pawl/driver"
)

// A head is who was seen at the head of a line, and so holds the name. To find it
// has the server walk the line. So one asks for all of a client that wait in it.
type head struct {
	entry *driver.Entry // nil: there was none, or it could not be learnt
	at    time.Time     // when it was asked for
	asked chan struct{} // closed when a question under way is over; nil: there is none
}

// maxHeads is how many heads are remembered. To forget costs one call.
const maxHeads = 1000

// holder returns who is at the head of p's line, where that can be learnt. Who has
// waited for long need not know it to the second: it may have been seen half as
// long ago as p has waited, and at most a minute.
func (s *session) holder(ctx context.Context, p *spot) *driver.Entry {
	within := min(max(time.Since(p.since)/2, time.Second), time.Minute)
	e := s.e
	e.mu.Lock()
	h := e.heads[p.claim.Name]
	if h == nil {
		if len(e.heads) >= maxHeads {
			clear(e.heads)
		}
		h = &head{}
		e.heads[p.claim.Name] = h
	}
	if time.Since(h.at) > within {
		asked := e.askLocked(&h.asked, func() { h.find(e, p, patience(s.ttl)) })
		e.mu.Unlock()
		select {
		case <-asked:
		case <-ctx.Done():
			return nil
		}
		e.mu.Lock()
	}
	defer e.mu.Unlock()
	if h.entry == nil {
		return nil
	}
	entry := *h.entry
	entry.Since += time.Since(h.at)
	return &entry
}

// find asks the store for h. What is foreign there is no fault of who waits.
func (h *head) find(e *Engine, p *spot, limit time.Duration) {
	ctx, cancel := context.WithTimeout(e.begun, limit)
	defer cancel()
	var entry *driver.Entry
	begun := time.Now()
	if reply, err := e.client.Do(ctx, p.line.first()); err == nil {
		entry, _ = p.line.holder(p.claim.Name, (*pb.RangeResponse)(reply.Get()))
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	h.entry, h.at = entry, begun
}
