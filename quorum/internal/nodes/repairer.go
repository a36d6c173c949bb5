package nodes

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"sync"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// A Repairer lets nodes vote again, on one goroutine that runs while there are nodes
// that answer and do not vote.
type Repairer struct {
	set   *Set
	ctx   context.Context
	start func(func()) bool

	mu      sync.Mutex // guards what follows
	running bool
	again   bool
}

// NewRepairer returns a repairer that works until ctx ends. start runs a function on a
// goroutine, or reports false when there must be no new ones.
func NewRepairer(ctx context.Context, set *Set, start func(func()) bool) *Repairer {
	return &Repairer{set: set, ctx: ctx, start: start}
}

// Wake tells the repairer that a node does not vote, or votes in another epoch.
func (r *Repairer) Wake() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.again = true
	if !r.running {
		r.running = r.start(r.run)
	}
}

func (r *Repairer) run() {
	id := make([]byte, 16)
	_, _ = rand.Read(id) // never fails
	s := Open(r.set, driver.SessionOptions{ID: hex.EncodeToString(id), TTL: r.set.MaxTTL, Note: "repairs the quorum"}, func() {})
	defer s.Close(r.ctx, nil)
	for r.more() {
		pause := r.repair(s)
		if pause == 0 {
			continue
		}
		select {
		case <-time.After(pause):
		case <-r.ctx.Done():
		}
	}
}

// more reports whether there is anything left to do.
func (r *Repairer) more() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.running = r.again && r.ctx.Err() == nil
	r.again = false
	return r.running
}

// repair repairs what can be repaired now and returns when to try again; 0: never.
func (r *Repairer) repair(s *Sessions) (pause time.Duration) {
	m, err := s.repair(r.ctx, true)
	if err != nil {
		return 0
	}
	s.alignEpochs(r.ctx, m)
	for i, report := range m.reports {
		if !m.silent(i) {
			continue
		}
		wait := max(r.set.silence()-report.Since, 100*time.Millisecond)
		if pause == 0 || wait < pause {
			pause = wait
		}
	}
	if pause > 0 {
		r.mu.Lock()
		r.again = true
		r.mu.Unlock()
	}
	return min(pause, time.Second)
}
