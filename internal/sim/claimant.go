package sim

import (
	"context"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/history"
)

// A ticket goes with the context of an acquire, through the core to the engine.
type ticket struct {
	w      *world
	who    uint64
	queued history.Time
}

type ticketKey struct{}

// ticket returns ctx with a new ticket.
func (l *lane) ticket(ctx context.Context) (context.Context, *ticket) {
	t := &ticket{w: l.w, who: mix(uint64(l.id), uint64(l.w.now()))}
	return context.WithValue(ctx, ticketKey{}, t), t
}

// by returns which acquire a context belongs to; 0: none.
func by(ctx context.Context) uint64 {
	if t, ok := ctx.Value(ticketKey{}).(*ticket); ok {
		return t.who
	}
	return 0
}

// claimant returns which acquire a claim belongs to: that of the context in which the
// claim was first seen. Its ID would not do, since IDs are drawn in the order in which
// goroutines run.
func (w *world) claimant(ctx context.Context, id string) uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	who, known := w.claimants[id]
	if !known {
		who = by(ctx)
		w.claimants[id] = who
	}
	return who
}

// claimed returns which acquire a claim in the store belongs to.
func (w *world) claimed(id string) uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.claimants[id]
}

// judgeLine looks, some time after an acquire failed, whether its claims have left the
// store. Without a fault that takes a few messages; a claim that nobody leaves is there for
// two thirds of a TTL at least.
func (l *lane) judgeLine(q *request, a *history.Attempt, who uint64) {
	w, p, from, returned := l.w, l.p, a.Called, a.Returned
	if len(w.nodes) > 1 || !a.Fair {
		return // there is no line; or another goroutine of the process may have taken the place
	}
	w.later(w.ttl/2, func() {
		if p.gone() || w.disturbed(p.id, from, w.now()) {
			return
		}
		for _, name := range q.names {
			line, _ := w.nodes[0].mem.Line(context.Background(), name)
			for _, e := range line {
				if w.claimed(e.ID) == who {
					w.breach(leavesLine, "client %d called at %v for %q and failed at %v; its claim is still there", p.id, from, name, returned)
				}
			}
		}
	})
}

// A labelled engine notes which acquire a claim belongs to, above a quorum, which makes
// its calls with contexts of its own.
type labelled struct {
	driver.Engine
	w *world
}

func (e labelled) Open(ctx context.Context, o driver.SessionOptions) (driver.Session, error) {
	born := uint64(e.w.now())
	s, err := e.Engine.Open(ctx, o)
	if err != nil {
		return nil, err
	}
	return labelledSession{s, e.w, born}, nil
}

type labelledSession struct {
	driver.Session
	w    *world
	born uint64
}

func (s labelledSession) Enter(ctx context.Context, c driver.Claim) (driver.Standing, error) {
	defer s.w.tick(ctx, "enter", s.w.claimant(ctx, c.ID))
	return s.Session.Enter(ctx, c)
}

func (s labelledSession) Await(ctx context.Context, c driver.Claim, last driver.Standing) (driver.Standing, error) {
	defer s.w.tick(ctx, "await", s.w.claimant(ctx, c.ID))
	return s.Session.Await(ctx, c, last)
}

func (s labelledSession) Leave(ctx context.Context, c driver.Claim) error {
	defer s.w.tick(ctx, "leave", s.w.claimant(ctx, c.ID))
	return s.Session.Leave(ctx, c)
}

func (s labelledSession) Beat(ctx context.Context, live []driver.Claim, out []driver.Standing) error {
	defer s.w.tick(ctx, "beat", s.born)
	return s.Session.Beat(ctx, live, out)
}

// tick lets a call return a moment after the end of its context: the core may have a timer
// at that very moment.
func (w *world) tick(ctx context.Context, op string, who uint64) {
	if ctx.Err() != nil {
		time.Sleep(between(mix(w.seed, text(op), who, uint64(w.now())), 1, time.Microsecond))
	}
}
