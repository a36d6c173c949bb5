package nodes

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"sync"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driverkit"
)

// A Repairer lets nodes vote again, on one goroutine that runs while there are nodes
// that answer and do not vote.
type Repairer struct {
	set   *Set
	start func(func(context.Context)) error

	mu      sync.Mutex // guards what follows
	running bool
	again   bool
}

// NewRepairer returns a repairer. start runs a function on a goroutine until its ctx
// ends, or returns an error when there must be no new goroutines.
func NewRepairer(set *Set, start func(func(context.Context)) error) *Repairer {
	return &Repairer{set: set, start: start}
}

// Wake tells the repairer that a node does not vote, or votes in another epoch.
func (r *Repairer) Wake() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.again = true
	if !r.running {
		r.running = r.start(r.run) == nil
	}
}

func (r *Repairer) run(ctx context.Context) {
	id := make([]byte, 16)
	_, _ = rand.Read(id) // never fails
	s := Open(r.set, driver.SessionOptions{ID: hex.EncodeToString(id), TTL: r.set.MaxTTL, Note: "repairs the quorum"}, func() {})
	defer s.Close(ctx, nil)
	for r.more(ctx) {
		if pause := r.repair(ctx, s); pause > 0 {
			driverkit.Pause(ctx, pause)
		}
	}
}

// more reports whether there is anything left to do.
func (r *Repairer) more(ctx context.Context) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.running = r.again && ctx.Err() == nil
	r.again = false
	return r.running
}

// repair repairs what can be repaired now and returns when to try again; 0: never.
func (r *Repairer) repair(ctx context.Context, s *Sessions) (pause time.Duration) {
	m, err := s.repair(ctx, true)
	if err != nil {
		return 0
	}
	s.alignEpochs(ctx, m)
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
