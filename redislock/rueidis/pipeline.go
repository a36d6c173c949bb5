package rueidis

import (
	"context"
	"errors"
	"sync"
	"time"

	redis "github.com/redis/rueidis"

	"github.com/pawl-go/pawl/redislock/internal/redisclient"
)

// A pipeline is one connection that makes round trips, one at a time. A caller that
// finds it idle sends its call directly and reads the reply itself. Calls that come
// meanwhile are sent together on the next trip, by the pipeline's goroutine; where
// several of them can be merged, one command serves all. On the client's own connections
// each call passes a goroutine that writes for all and another that reads for all; a lock
// is two calls and nothing else, so that is most of its cost.
//
// There are two pipelines, so that the server works for one while the callers of the
// other go on.
//
// Pipelines are for a single node: behind sentinels and in a cluster the client changes
// servers, and would not move these connections. A call that cannot use one, because it
// is not connected or its trip takes long, uses the client's own connections.
type pipeline struct {
	dial   func() (dedicated, error) // a connection to keep, that answers; errNoSpare: there is none to spare
	prober *prober
	tasks  *sync.WaitGroup // of the client
	resume chan struct{}   // buffered by one: a direct call has ended, the goroutine takes over
	stop   chan struct{}   // closed by end

	mu         sync.Mutex            // guards what follows
	conn       redis.DedicatedClient // nil: not connected
	connecting bool
	notBefore  time.Time // when to connect at the earliest
	ended      bool
	busy       bool      // a trip is under way, or about to begin
	lost       bool      // the connection, in a direct call
	sentAt     time.Time // when the trip began
	waiting    []*redisclient.PendingCall
	slow       chan struct{} // of calls from now on; closed when they should also select on their ctx
	slower     chan struct{} // of calls from before the last tick
	ticker     *time.Timer   // calls tick; runs while the pipeline is in use
	ticking    bool
	used       bool       // since the last tick
	direct     directCall // under way

	deadline deadlineOnly // of the direct call, which alone uses it
}

const (
	longTrip   = 50 * time.Millisecond // a call does not wait for the end of a longer trip
	slowCall   = 5 * time.Millisecond  // a caller that has waited longer also selects on ctx.Done
	maxWaiting = 256

	spareRecheck = time.Minute // when to ask again for a connection that the program can spare
)

// errNoSpare says that the program would have no connection left.
var errNoSpare = errors.New("rueidis: the client's pool lends no further connection")

func newPipeline(dial func() (dedicated, error), probe *prober, tasks *sync.WaitGroup) *pipeline {
	p := &pipeline{
		dial: dial, prober: probe, tasks: tasks, resume: make(chan struct{}, 1), stop: make(chan struct{}),
		slow: make(chan struct{}), slower: make(chan struct{}),
	}
	p.deadline.Context = context.Background()
	p.ticker = time.AfterFunc(time.Hour, p.tick) // short, and it touches only the pipeline: nothing need wait for it
	p.ticker.Stop()
	return p
}

// takeIdle returns the connection of a pipeline that is not in use, for a direct call.
func (p *pipeline) takeIdle(ctx context.Context) redis.DedicatedClient {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.conn == nil {
		p.connectLocked()
		return nil
	}
	if p.busy || p.ended {
		return nil
	}
	p.busy, p.sentAt, p.direct.ctx = true, time.Now(), ctx
	p.useLocked()
	return p.conn
}

// acceptsLocked reports whether a call may wait for the next trip, which has room for so many.
func (p *pipeline) acceptsLocked(room int) bool {
	return p.conn != nil && p.busy && !p.lost && !p.ended && len(p.waiting) < room
}

// useLocked keeps the ticker running: to start and stop it for every trip would cost as
// much as it saves.
func (p *pipeline) useLocked() {
	p.used = true
	if !p.ticking {
		p.ticking = true
		p.ticker.Reset(slowCall)
	}
}

// tick notifies calls that have waited long.
func (p *pipeline) tick() {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.slower)
	p.slower, p.slow = p.slow, make(chan struct{})
	p.watchDirectLocked()
	if p.ticking = p.busy || p.used; p.ticking { // so there are two ticks after the last use
		p.ticker.Reset(slowCall)
	}
	p.used = false
}

// connectLocked connects in the background: that may take long, and until then there
// are other connections.
func (p *pipeline) connectLocked() {
	if p.connecting || p.ended || time.Now().Before(p.notBefore) {
		return
	}
	p.connecting = true
	p.tasks.Go(func() { // ends with the pipeline, or by the client's dial timeout; Close waits for it
		d, err := p.dial()
		p.mu.Lock()
		if p.connecting = false; err == errNoSpare { // every attempt is at the program's expense
			p.notBefore = time.Now().Add(spareRecheck)
		}
		ended := p.ended
		if err == nil && !ended {
			p.conn = d.DedicatedClient
		}
		p.mu.Unlock()
		switch {
		case err != nil:
		case ended:
			d.release()
		default:
			p.run(d.DedicatedClient, d.release)
		}
	})
}

// run sends the calls that travel together. It ends with the pipeline, and releases the
// connection, or with the connection.
func (p *pipeline) run(conn redis.DedicatedClient, release func()) {
	batch := redisclient.Batch{Send: sender(conn)}
	var calls []*redisclient.PendingCall
	for lost := false; !lost; {
		select {
		case <-p.resume:
		case <-p.stop:
			if busy, _ := p.state(); busy { // a direct call still uses the connection
				<-p.resume
			}
			p.disconnect()
			release()
			return
		}
		_, lost = p.state()
		for !lost {
			if calls = p.take(calls); len(calls) == 0 {
				break
			}
			lost = batch.Run(calls)
		}
	}
	p.disconnect()
	conn.Close()
}

// sender sends the calls of a batch on one connection.
func sender(conn redis.DedicatedClient) func(calls []redisclient.Call, out []redisclient.Answer) (lost bool) {
	return func(calls []redisclient.Call, out []redisclient.Answer) (lost bool) {
		if len(calls) == 1 {
			res := conn.Do(context.Background(), build(conn.B(), &calls[0]))
			out[0].Reply, out[0].Err = result(res)
			return res.NonRedisError() != nil
		}
		for i, res := range conn.DoMulti(context.Background(), buildAll(conn.B(), calls)...) {
			out[i].Reply, out[i].Err = result(res)
			lost = lost || res.NonRedisError() != nil
		}
		return lost
	}
}

func (p *pipeline) state() (busy, lost bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.busy, p.lost
}

// take returns the waiting calls; if there are none, the pipeline is idle.
func (p *pipeline) take(last []*redisclient.PendingCall) (calls []*redisclient.PendingCall) {
	clear(last)
	p.mu.Lock()
	defer p.mu.Unlock()
	calls, p.waiting = p.waiting, last[:0]
	p.busy, p.sentAt = len(calls) > 0, time.Now()
	return calls
}

// drop gives up a connection that is idle, or whose trip has been without an answer for
// long: it may be dead.
func (p *pipeline) drop() {
	p.mu.Lock()
	conn, silent := p.conn, p.busy && time.Since(p.sentAt) > silentAfter/2
	idle := conn != nil && !p.busy
	if idle {
		p.busy, p.lost = true, true
	}
	p.mu.Unlock()
	if idle {
		p.resume <- struct{}{} // there is room: no direct call is under way
	} else if conn != nil && silent {
		p.tasks.Go(conn.Close) // which takes long on a silent one
	}
}

// disconnect ends the use of the connection; the waiting calls are sent another way.
func (p *pipeline) disconnect() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conn, p.busy, p.lost = nil, false, false
	for _, call := range p.waiting {
		call.Unsent()
	}
	p.waiting = nil
}

// end lets the pipeline's goroutine end after the present trip.
func (p *pipeline) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.ended {
		p.ended = true
		close(p.stop)
	}
}
