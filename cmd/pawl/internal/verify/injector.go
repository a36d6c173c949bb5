package verify

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/pawl-go/pawl/internal/history"
)

// An injector brings faults to workers, one after the other: the others are undisturbed then.
type injector struct {
	run    *run
	faults []string
	rnd    *rand.Rand
	next   []string // the faults that are still to come in this round
}

// quiet draws the time between two faults.
func (j *injector) quiet() time.Duration {
	return 200*time.Millisecond + time.Duration(j.rnd.Int64N(int64(600*time.Millisecond)))
}

// acquireTime is the time in which a worker's goroutines take locks before a fault.
const acquireTime = 30 * time.Millisecond

// work brings faults about until ctx ends. It returns an error if a worker cannot be
// started again.
func (j *injector) work(ctx context.Context) error {
	for len(j.faults) > 0 {
		if rest(ctx, j.quiet()); ctx.Err() != nil {
			return nil
		}
		k := j.rnd.IntN(len(j.run.workers))
		if err := j.inject(ctx, k, j.fault()); err != nil {
			return err
		}
	}
	<-ctx.Done()
	return nil
}

// fault draws a fault; every one comes once before any comes again.
func (j *injector) fault() string {
	if len(j.next) == 0 {
		for _, k := range j.rnd.Perm(len(j.faults)) {
			j.next = append(j.next, j.faults[k])
		}
	}
	f := j.next[0]
	j.next = j.next[1:]
	return f
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
