package verify

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/pawl-go/pawl/internal/history"
)

// An injector brings faults to workers, one after the other: the others are undisturbed then.
type injector struct {
	run    *run
	faults []string
	rnd    *rand.Rand
	next   []string // the turns that are still to come before any comes again
}

// quiet draws the time between two turns.
func (j *injector) quiet() time.Duration {
	least := min(j.run.TTL, time.Second) / 5
	return least + time.Duration(j.rnd.Int64N(int64(3*least)))
}

// acquireTime is the time in which a worker's goroutines take locks before a fault.
const acquireTime = 30 * time.Millisecond

// work brings faults about until ctx ends. It returns an error if a worker cannot be
// started again.
func (j *injector) work(ctx context.Context) error {
	begun := now()
	for {
		j.spread(ctx, begun)
		if rest(ctx, j.quiet()); ctx.Err() != nil {
			return nil
		}
		k := j.rnd.IntN(len(j.run.workers))
		f := j.turn()
		if f == longHold {
			j.holdLong(ctx, k)
		} else if err := j.inject(ctx, k, f); err != nil {
			return err
		}
	}
}

// spread has the workers rest while they are ahead of their share of Most: the whole
// history is kept in memory, so that a long run works for some time, and rests for some.
func (j *injector) spread(ctx context.Context, begun history.Time) {
	r := j.run
	ahead := func(some int) bool {
		share := float64(r.Most) * float64(now()-begun) / float64(r.Length)
		return float64(r.recorder.attempted()) > share+float64(some)
	}
	if r.Most == 0 || !ahead(r.Most/100) {
		return
	}
	for _, p := range r.workers {
		p.send(order{Rest: true})
	}
	for ahead(0) && ctx.Err() == nil {
		rest(ctx, showEvery)
	}
	for _, p := range r.workers {
		p.send(order{GoOn: true})
	}
}

// longHold is the turn in which a worker holds what it has without a fault, for longer than
// the TTL: only beats keep its leases.
const longHold = "hold"

// turn draws a fault or longHold; every one comes once before any comes again. A short run
// has time for a fault at least.
func (j *injector) turn() string {
	if n := len(j.faults); len(j.next) == 0 {
		for _, k := range j.rnd.Perm(n) {
			j.next = append(j.next, j.faults[k])
		}
		j.next = slices.Insert(j.next, min(n, 1+j.rnd.IntN(n+1)), longHold)
	}
	f := j.next[0]
	j.next = j.next[1:]
	return f
}

func (j *injector) holdLong(ctx context.Context, k int) {
	p, ttl := j.run.workers[k], j.run.recorder.lifetime(j.run.TTL)
	p.send(order{Hold: true})
	rest(ctx, ttl*5/4+time.Duration(j.rnd.Int64N(int64(ttl))))
	p.send(order{Heal: true})
}

// inject brings one kind of fault to a worker, and ends it.
func (j *injector) inject(ctx context.Context, k int, fault string) error {
	p := j.run.workers[k]
	if (lasting(fault) || fault == kill) && j.rnd.IntN(3) > 0 {
		p.send(order{Hold: true}) // so that there are leases to lose
		rest(ctx, acquireTime)
	}
	f := history.Fault{Client: p.client, Kind: fault, From: now()}
	length := howLong(fault, j.run.TTL, j.rnd)
	switch fault {
	case kill:
		p.kill()
	case pause:
		p.pause()
		rest(ctx, length)
		p.resume()
		p.send(order{Heal: true})
	case swallow, reset:
		for range 3 + j.rnd.IntN(10) { // one alone rarely meets the call that matters
			f.From = p.send(order{Fault: fault})
			rest(ctx, 10*time.Millisecond+time.Duration(j.rnd.Int64N(int64(200*time.Millisecond))))
			f.To = now()
			j.run.recorder.fault(f)
		}
		p.send(order{Heal: true}) // a reply that has not come yet is not swallowed later
		return nil
	default:
		p.send(order{Fault: fault, Delay: time.Duration(j.rnd.Int64N(int64(j.run.TTL / 6)))})
		rest(ctx, length)
		p.send(order{Heal: true})
	}
	f.To = now()
	j.run.recorder.fault(f)
	if fault == kill && ctx.Err() == nil {
		return j.run.replace(ctx, k)
	}
	return nil
}
