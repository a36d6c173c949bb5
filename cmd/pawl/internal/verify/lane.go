package verify

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/internal/history"
)

const (
	askEvery = time.Millisecond      // how often a holder asks its lease
	troubled = 20 * time.Millisecond // rest after an acquire that failed
	tryEvery = 10 * time.Millisecond // the longest rest between two tries of a name that is only tried
	clear    = 10 * time.Millisecond // a loss that much before the deadline is none for lack of renewal
)

// A lane is one goroutine of a worker, which acquires and releases without end.
type lane struct {
	*worker
	number int
	kinds  []kind
	rnd    *rand.Rand
}

func (l *lane) run(ctx context.Context) {
	for ctx.Err() == nil {
		if l.resting.Load() {
			rest(ctx, troubled)
			continue
		}
		k := l.kinds[l.rnd.IntN(len(l.kinds))]
		if !l.attempt(ctx, k) {
			rest(ctx, troubled)
		} else if k.Tried {
			rest(ctx, time.Duration(l.rnd.Int64N(int64(tryEvery))))
		}
	}
}

func rest(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// attempt acquires a name, and holds it if it can. It returns false if the store failed.
func (l *lane) attempt(ctx context.Context, k kind) bool {
	r := record{ID: l.nextID(), Lane: l.number, Kind: k.Name, Need: k.need(l.rnd), Try: k.Tried || l.rnd.IntN(5) == 0}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	acquire := k.acquire(l.client, l.Prefix, r.Need, r.Try)
	if !r.Try && l.rnd.IntN(5) == 0 {
		patience := time.Duration(l.rnd.Int64N(int64(20 * time.Millisecond)))
		if l.rnd.IntN(4) == 0 {
			patience *= 20
		}
		t := time.AfterFunc(patience, func() {
			l.out(record{ID: r.ID, Cancelled: now()})
			cancel()
		})
		defer t.Stop()
	}
	r.Called = now()
	l.out(r)
	lease, err := acquire(context.WithValue(ctx, attemptKey{}, &attempt{id: r.ID}))
	end := record{ID: r.ID, Returned: now()}
	switch {
	case err == nil:
		l.hold(lease, end, r.Need >= k.Limit)
		return true
	case errors.Is(err, pawl.ErrHeld):
		end.Result = history.Busy
	default:
		end.Result, end.Err = history.Failed, err.Error()
		if l.ctx.Err() != nil {
			end.Cancelled = history.Time(l.stopped.Load())
		}
	}
	l.out(end)
	return end.Result == history.Busy || ctx.Err() != nil
}

// hold uses a lease: an exclusive one writes to the register at once, at times again, and
// at times once more after it has ended.
func (l *lane) hold(lease *pawl.Lease, granted record, writes bool) {
	id := granted.ID
	granted.Result, granted.Token = history.Held, lease.Token()
	granted.Lasts = time.Until(lease.Deadline())
	var alive history.Time
	ask := func() bool {
		at := now()
		if lease.Err() != nil {
			return false
		}
		alive = at
		return true
	}
	ask()
	granted.Alive = alive
	l.out(granted)
	if writes {
		l.write(id, lease.Token())
	}
	until := time.Now().Add(l.length())
	asks := l.rnd.IntN(2) == 0 // to ask a lease also ends it, so half of the holders only wait for its context
	for (time.Now().Before(until) || l.holding.Load() && l.ctx.Err() == nil) && !l.lost(lease) && (!asks || ask()) {
	}
	if writes && l.rnd.IntN(4) == 0 && ask() {
		l.write(id, lease.Token())
	}
	held := ask()
	end := record{ID: id, Alive: alive}
	if !held {
		end.Early = time.Until(lease.Deadline()) > clear
		awaitLoss(lease)
		end.Told = now()
		if l.rnd.IntN(2) == 0 {
			rest(l.ctx, time.Duration(l.rnd.Int64N(int64(l.TTL)))) // a rival may hold by then
		}
		if writes {
			l.write(id, lease.Token())
		}
	}
	end.Unlock = now()
	l.out(end)
	err := lease.Unlock()
	end = record{ID: id, Unlocked: now(), End: history.Released}
	switch {
	case errors.Is(err, pawl.ErrLost):
		end.End, end.Early = history.Lost, time.Until(lease.Deadline()) > clear
	case err != nil:
		end.End = history.Unknown
	}
	l.out(end)
}

// awaitLoss waits until the context of a lease ends that is lost by what its Err says, which
// must be soon.
func awaitLoss(lease *pawl.Lease) {
	t := time.NewTimer(10 * time.Second)
	defer t.Stop()
	select {
	case <-lease.Context().Done():
	case <-t.C:
	}
}

// lost waits a moment and reports whether the lease's context has ended.
func (l *lane) lost(lease *pawl.Lease) bool {
	defer l.stalled(now())
	t := time.NewTimer(askEvery)
	defer t.Stop()
	select {
	case <-lease.Context().Done():
		return true
	case <-t.C:
		return false
	}
}

// length draws how long to hold: mostly not at all.
func (l *lane) length() time.Duration {
	switch n := l.rnd.IntN(2000); {
	case n < 1600:
		return 0
	case n < 1999:
		return time.Duration(l.rnd.Int64N(int64(2 * time.Millisecond)))
	}
	return time.Duration(l.rnd.Int64N(int64(l.TTL)))
}
