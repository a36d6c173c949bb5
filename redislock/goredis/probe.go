package goredis

import (
	"context"
	"errors"
	"sync"
	"time"

	redis "github.com/redis/go-redis/v9"

	"github.com/pawl-go/pawl/driverkit"
)

// A prober finds out whether the server answers on other connections than one that is
// silent. Idle connections may have died without notice, all at once, and go-redis lends
// those before it makes a new one; it drops those that do not answer a probe.
type prober struct {
	c    redis.UniversalClient
	pool *driverkit.Pool

	mu  sync.Mutex // guards now
	now *probe     // under way; nil: none
}

// A probe is one round of PINGs.
type probe struct {
	done  chan struct{} // closed when a PING was answered, or none was
	alive bool          // one was; written before done is closed
}

const (
	silentAfter  = 2 * time.Second        // how long a reply may take before connections are probed
	silentGrace  = time.Second            // how much later than that of a PING it may still come, on a busy machine
	probeTimeout = 500 * time.Millisecond // for the answer to one PING
)

// errSilent says that a connection is silent while another is answered. What was sent on it
// may have been carried out.
var errSilent = errors.New("goredis: no reply, while the server answers on another connection")

// probe probes idle connections, and returns before ctx has ended, so that a call may follow.
func (p *prober) probe(ctx context.Context) {
	limit := probeTimeout / 4
	if at, ok := ctx.Deadline(); ok {
		limit = min(limit, time.Until(at)/4)
	}
	p.begin().await(ctx, limit)
}

// begin returns the probe that is under way, or starts one. It ends by probeTimeout and the
// client's dial timeout; Close waits for it.
func (p *prober) begin() *probe {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.now == nil {
		now := &probe{done: make(chan struct{})}
		p.now = now
		p.pool.Do(func() { p.run(now) })
	}
	return p.now
}

func (p *prober) run(now *probe) {
	var pings sync.WaitGroup
	answered := make(chan struct{}, 1)
	p.eachNode(func(node *redis.Client) { p.pingIdle(node, &pings, answered) })
	over := make(chan struct{})
	p.pool.Do(func() {
		pings.Wait()
		close(over)
	})
	select {
	case <-answered:
		now.alive = true
	case <-over:
		select {
		case <-answered:
			now.alive = true
		default:
		}
	}
	close(now.done)
	<-over // until then another round would find the same connections
	p.mu.Lock()
	p.now = nil
	p.mu.Unlock()
}

func (p *prober) eachNode(f func(*redis.Client)) {
	switch c := p.c.(type) {
	case *redis.Client:
		f(c)
	case *redis.ClusterClient:
		ctx, cancel := context.WithTimeout(context.Background(), probeTimeout)
		defer cancel()
		_ = c.ForEachMaster(ctx, func(_ context.Context, node *redis.Client) error {
			f(node)
			return nil
		})
	}
}

// pingIdle sends a PING on every idle connection of both of a client's pools, and on a new
// one: the client makes that when the idle ones are in use.
func (p *prober) pingIdle(node *redis.Client, pings *sync.WaitGroup, answered chan<- struct{}) {
	node = node.WithTimeout(probeTimeout)
	stats, ctx := node.PoolStats(), context.Background()
	ping := func(n int, send func(command) error) {
		for range n {
			pings.Add(1)
			p.pool.Do(func() {
				defer pings.Done()
				if send(command{redis.NewCmd(ctx, "PING")}) == nil {
					select {
					case answered <- struct{}{}:
					default:
					}
				}
			})
		}
	}
	ping(int(stats.IdleConns)+1, func(c command) error { return node.Process(ctx, c) })
	if stats.PipelineStats != nil {
		ping(int(stats.PipelineStats.IdleConns), func(c command) error {
			pipe := node.Pipeline()
			_ = pipe.Process(ctx, c) // Exec has the error
			_, err := pipe.Exec(ctx)
			return err
		})
	}
}

// await waits for the end of a probe, at most for limit.
func (p *probe) await(ctx context.Context, limit time.Duration) {
	t := time.NewTimer(limit)
	defer t.Stop()
	select {
	case <-p.done:
	case <-t.C:
	case <-ctx.Done():
	}
}
