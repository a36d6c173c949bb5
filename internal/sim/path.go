package sim

import (
	"context"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// A path is one process's way to one node.
type path struct {
	w    *world
	proc *process
	at   int // the node
	node *node

	// guarded by world.mu
	cutOut, cutBack bool
	lossy           int      // percent of the messages to which something happens
	moment          int64    // of the last fate
	drawn           []uint64 // what was drawn in that moment
}

// A fate is what happens to one call.
type fate struct {
	out, back   time.Duration
	loseRequest bool
	loseReply   bool
	again       time.Duration // delivered once more so much later; 0: not
	quick       bool          // a call without an answer fails soon
	hang        time.Duration // or after this, if its ctx does not end before
	prompt      bool          // after a pause the answer comes first, and not the end of ctx
	key         uint64        // of the call
	tick        time.Duration // between the end of ctx and the return
}

// repeatable are the calls that may be delivered late or twice: the contract says that they
// change nothing then. No client may repeat a Store, so that only a copy after the original
// is possible: a copy before it would have the original answered as a conflict.
var repeatable = map[string]bool{"enter": true, "leave": true, "beat": true, "confirm": true, "store": true}

// fate draws what happens to a call from what it is and when, not from its turn.
func (p *path) fate(op, name string, who uint64) fate {
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	moment := time.Since(p.w.start).Nanoseconds()
	if moment != p.moment {
		p.moment, p.drawn = moment, p.drawn[:0]
	}
	key := mix(text(op), text(name), who)
	n := 0
	for _, k := range p.drawn {
		if k == key {
			n++
		}
	}
	p.drawn = append(p.drawn, key)
	r := newSource(p.w.seed, uint64(p.proc.id), uint64(p.at), key, uint64(moment), uint64(n))
	f := fate{
		out: r.between(p.w.latency/8+1, p.w.latency), back: r.between(p.w.latency/8+1, p.w.latency),
		key: r.next(), quick: r.chance(50), prompt: r.chance(50), hang: r.between(p.w.ttl/2, 2*p.w.ttl), tick: r.between(1, 1000),
	}
	if !r.chance(p.lossy) {
		return f
	}
	kind := r.below(6)
	if kind >= 3 && kind < 5 && !repeatable[op] {
		kind -= 3
	}
	switch kind {
	case 0:
		f.loseRequest = true
	case 1:
		f.loseReply = true
	case 2:
		f.back = r.between(0, p.w.ttl)
		if r.chance(60) {
			f.back = r.between(0, p.w.ttl/6) // a beat is not waited for any longer
		}
	case 3:
		f.loseRequest, f.again = true, r.between(1, p.w.ttl*9/10)
	case 4:
		f.again = r.between(1, p.w.ttl*9/10)
		if op == "store" { // the copy comes after it
			f.again += f.out
		}
	case 5:
		f.out = r.between(0, p.w.ttl*9/10)
	}
	p.w.tally.Faults[[]string{"lost request", "lost reply", "late reply", "late request", "doubled call", "slow request"}[kind]]++
	return f
}

func (p *path) state() (out, back, down bool) {
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	dead := p.proc.dead
	return p.cutOut || dead, p.cutBack || dead, p.node.down
}

// send makes one call at the node; who tells it from others of the same moment.
func send[T any](ctx context.Context, p *path, op, name string, who uint64, do func(context.Context) (T, error)) (T, error) {
	who = mix(who, uint64(p.w.now())) // calls that a pause holds up began at different moments
	p.proc.runs(mix(text(op), text(name), uint64(p.at), who))
	f := p.fate(op, name, who)
	if f.again > 0 {
		p.w.later(f.again, func() {
			if out, _, down := p.state(); !out && !down {
				_, _ = do(context.Background())
			}
		})
	}
	return carry(ctx, p, f, func() (T, error) { return do(context.WithoutCancel(ctx)) })
}

// carry takes a request to the node and the answer back.
func carry[T any](ctx context.Context, p *path, f fate, do func() (T, error)) (T, error) {
	var none T
	if !travel(ctx, f.out) {
		return none, p.noAnswer(ctx, f)
	}
	out, _, down := p.state()
	if out || f.loseRequest {
		return none, p.noAnswer(ctx, f)
	}
	v, err := none, error(driver.ErrUnreachable)
	if !down {
		v, err = do()
	}
	arrived := travel(ctx, f.back)
	_, back, _ := p.state()
	if back || f.loseReply || !arrived {
		return none, p.noAnswer(ctx, f)
	}
	if p.proc.runs(f.key) && ctx.Err() != nil && !f.prompt {
		return none, ctx.Err()
	}
	return v, err
}

// noAnswer returns what a client gets that gets no answer.
func (p *path) noAnswer(ctx context.Context, f fate) error {
	wait := f.hang
	if f.quick || p.proc.killed() {
		wait = f.back
	}
	ended := !travel(ctx, wait)
	time.Sleep(f.tick) // two things of one moment come in an order that cannot be repeated
	p.proc.runs(f.key)
	if ended {
		return ctx.Err()
	}
	return driver.ErrUnreachable
}

// travel takes d; it reports false if ctx ended before.
func travel(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
