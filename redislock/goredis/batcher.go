package goredis

import (
	"context"
	"slices"
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
	most   int         // pipelines that may be under way: the client's pool has connections for others too
	later  *time.Timer // flushes

	mu       sync.Mutex // guards what follows
	inflight int        // pipelines under way
	lastSent time.Time
	returned time.Time // when a pipeline last did
	waiting  []*redisclient.PendingCall
	ahead    int // how many of waiting, the first, are sent before the others
	idle     []*pipeline
}

const (
	fewPipelines  = 2                // keep a server on the same network busy
	manyPipelines = 8                // are enough for a distant server
	shortTrip     = time.Millisecond // a reply that takes longer comes from a distant or busy server
	maxWaiting    = 256
	patience      = time.Second // if no pipeline returns for so long, others are sent beyond what there should be
)

func newBatcher(c *redis.Client, pool *driverkit.Pool, prober *prober) *batcher {
	size := c.Options().PoolSize
	b := &batcher{c: c, pool: pool, prober: prober, most: max(size-size/4, 1)}
	b.later = time.AfterFunc(time.Hour, b.flush) // short, and at most starts a pipeline as a call does
	b.later.Stop()
	return b
}

// fullLocked reports whether waiting calls are left to the next pipeline that returns. A
// crowd of calls on a busy server must not take all connections: renewals would wait for one.
func (b *batcher) fullLocked() bool {
	if b.inflight < b.most || time.Since(b.returned) > patience {
		return false
	}
	b.later.Reset(patience)
	return true
}

// do sends a call and returns when ctx ends, which go-redis by itself does not notice
// while it reads.
func (b *batcher) do(ctx context.Context, c redisclient.Call) (redisclient.Reply, error) {
	p := redisclient.NewPendingCall(c)
	b.start(b.add(ctx, p, c.Ahead))
	err := await(ctx, p.Done, b.flush, silentAfter, b.prober)
	for err == errSilent && b.waits(p) { // it has no reply because it was not sent
		err = await(ctx, p.Done, b.flush, silentAfter, b.prober)
	}
	if err != nil {
		if b.withdraw(p) {
			p.Result() // which frees it; else the pipeline does
		}
		return redisclient.Reply{}, err
	}
	a, _ := p.Result() // a pipeline sends every call
	return a.Reply, a.Err
}

// waits reports whether a call was not sent yet.
func (b *batcher) waits(p *redisclient.PendingCall) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Contains(b.waiting, p)
}

// withdraw reports whether a call that was given up need not be sent any more.
func (b *batcher) withdraw(p *redisclient.PendingCall) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	at := slices.Index(b.waiting, p)
	if at >= 0 {
		b.waiting = slices.Delete(b.waiting, at, at+1)
		if at < b.ahead {
			b.ahead--
		}
	}
	return at >= 0
}

// add queues a call, and returns a pipeline with all waiting calls if one is to be sent
// now.
func (b *batcher) add(ctx context.Context, p *redisclient.PendingCall, ahead bool) *pipeline {
	b.mu.Lock()
	defer b.mu.Unlock()
	if ahead {
		b.waiting = slices.Insert(b.waiting, b.ahead, p)
		b.ahead++
	} else {
		b.waiting = append(b.waiting, p)
	}
	if b.fullLocked() {
		return nil
	}
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
	if len(b.waiting) > 0 && !b.fullLocked() {
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
	if b.inflight == 0 {
		b.returned = time.Now() // from now on one may
	}
	b.inflight++
	b.fillLocked(p)
	return p
}

func (b *batcher) fillLocked(p *pipeline) {
	b.lastSent = time.Now()
	b.ahead = max(b.ahead-maxWaiting, 0)
	if len(b.waiting) <= maxWaiting {
		p.calls, b.waiting = b.waiting, p.calls[:0]
		return
	}
	p.calls = append(p.calls[:0], b.waiting[:maxWaiting]...)
	b.waiting = slices.Delete(b.waiting, 0, maxWaiting)
}

// refill gives a pipeline that has returned the waiting calls. If there are none, the
// pipeline is not needed.
func (b *batcher) refill(p *pipeline) (needed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.returned = time.Now()
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
