package goredis

import (
	"context"
	"sync"
	"time"

	redis "github.com/redis/go-redis/v9"

	"github.com/pawl-go/pawl/driverkit"
	"github.com/pawl-go/pawl/redislock/internal/redisclient"
)

// A batcher sends the calls of many goroutines to one server in few pipelines. While few
// pipelines are under way, a call is sent at once. Further calls wait for the first
// pipeline that returns, and are sent together; where several of them can be merged, one
// command serves all. A reply may be late or never come: calls that have waited for a
// while are sent anyway. Every pipeline uses a connection of the client's pool, as any
// other command does.
type batcher struct {
	c      redis.UniversalClient
	pool   *driverkit.Pool
	prober *prober

	mu       sync.Mutex // guards what follows
	inflight int        // pipelines under way
	lastSent time.Time
	waiting  []*redisclient.PendingCall
	idle     []*pipeline
}

const (
	fewPipelines  = 2                // keep a server on the same network busy
	manyPipelines = 8                // are enough for a distant server
	shortTrip     = time.Millisecond // a reply that takes longer comes from a distant or busy server
	maxWaiting    = 256
)

// do sends a call and returns when ctx ends, which go-redis by itself does not notice
// while it reads.
func (b *batcher) do(ctx context.Context, c redisclient.Call) (redisclient.Reply, error) {
	p := redisclient.NewPendingCall(c)
	b.start(b.add(ctx, p))
	if err := await(ctx, p.Done, b.flush, silentAfter, b.prober); err != nil {
		return redisclient.Reply{}, err // the pipeline frees the pending call
	}
	a, _ := p.Result() // a pipeline sends every call
	return a.Reply, a.Err
}

// add queues a call, and returns a pipeline with all waiting calls if one is to be sent
// now.
func (b *batcher) add(ctx context.Context, p *redisclient.PendingCall) *pipeline {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waiting = append(b.waiting, p)
	if (b.inflight >= manyPipelines || b.inflight >= fewPipelines && time.Since(b.lastSent) < shortTrip) && len(b.waiting) < maxWaiting {
		return nil
	}
	line := b.takeLocked()
	if len(line.calls) == 1 {
		line.ctx = withoutDone{ctx} // for the program's hooks
	}
	return line
}

// flush sends the waiting calls.
func (b *batcher) flush() {
	b.mu.Lock()
	var p *pipeline
	if len(b.waiting) > 0 {
		p = b.takeLocked()
	}
	b.mu.Unlock()
	b.start(p)
}

// start sends a pipeline, if there is one.
func (b *batcher) start(p *pipeline) {
	if p != nil {
		b.pool.Do(p.run) // ends by the client's timeouts; Close waits for it
	}
}

// takeLocked returns a pipeline with the waiting calls.
func (b *batcher) takeLocked() (p *pipeline) {
	if n := len(b.idle); n > 0 {
		p, b.idle = b.idle[n-1], b.idle[:n-1]
	} else {
		p = newPipeline(b.c, b.refill)
	}
	b.inflight++
	b.fillLocked(p)
	return p
}

func (b *batcher) fillLocked(p *pipeline) {
	b.lastSent = time.Now()
	p.calls, b.waiting = b.waiting, p.calls[:0]
}

// refill gives a pipeline that has returned the waiting calls. If there are none, the
// pipeline is not needed.
func (b *batcher) refill(p *pipeline) (needed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.waiting) > 0 {
		b.fillLocked(p)
		return true
	}
	b.inflight--
	if len(b.idle) < manyPipelines {
		b.idle = append(b.idle, p)
	}
	return false
}

// A pipeline sends one batch after the other.
type pipeline struct {
	c      redis.UniversalClient
	refill func(*pipeline) bool
	ctx    context.Context // of the batch
	calls  []*redisclient.PendingCall
	batch  redisclient.Batch
	run    func() // loop, made once
}

func newPipeline(c redis.UniversalClient, refill func(*pipeline) bool) *pipeline {
	p := &pipeline{c: c, refill: refill, ctx: context.Background()}
	p.batch.Send, p.run = p.send, p.loop
	return p
}

func (p *pipeline) loop() {
	for needed := true; needed; needed = p.refill(p) {
		p.batch.Run(p.calls)
		clear(p.calls)
		p.ctx = context.Background()
	}
}

// send never loses its connection: each pipeline has one of the pool.
func (p *pipeline) send(calls []redisclient.Call, out []redisclient.Answer) (lost bool) {
	if len(calls) == 1 {
		cmd := encode(p.ctx, &calls[0])
		_ = p.c.Process(p.ctx, cmd) // the command has the result
		out[0].Reply, out[0].Err = result(cmd)
		return false
	}
	pipe, cmds := queue(p.ctx, p.c, calls)
	_, _ = pipe.Exec(p.ctx) // the commands have the results
	results(cmds, out)
	return false
}
