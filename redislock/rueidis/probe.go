package rueidis

import (
	"context"
	"errors"
	"sync"
	"time"
)

// A prober finds out whether the server answers on other connections than one that is
// silent: all those in use may have died without notice.
type prober struct {
	tasks *sync.WaitGroup            // of the client
	ask   func(context.Context) bool // whether the server answers

	mu  sync.Mutex // guards now
	now *probe     // under way; nil: none
}

// A probe is one attempt to get an answer.
type probe struct {
	done  chan struct{} // closed with the probe
	alive bool          // written before done is closed
}

const (
	silentAfter = 2 * time.Second // how long a reply may take before other connections are probed
	silentGrace = time.Second     // how much later than that of a PING it may still come, on a busy machine
)

// errSilent says that a connection is silent while another is answered. What was sent on it
// may have been carried out.
var errSilent = errors.New("rueidis: no reply, while the server answers on another connection")

// begin returns the probe that is under way, or starts one. It ends by probeTimeout; Close
// waits for it.
func (p *prober) begin() *probe {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.now == nil {
		now := &probe{done: make(chan struct{})}
		p.now = now
		p.tasks.Go(func() { p.run(now) })
	}
	return p.now
}

func (p *prober) run(now *probe) {
	ctx, cancel := context.WithTimeout(context.Background(), probeTimeout)
	defer cancel()
	now.alive = p.ask(ctx)
	p.mu.Lock()
	p.now = nil
	p.mu.Unlock()
	close(now.done)
}

// await returns what comes from done, or ctx's error, or errSilent. Without a prober a silent
// connection is left to the client.
func await[T any](ctx context.Context, done <-chan T, p *prober) (t T, err error) {
	var silent <-chan time.Time
	if p != nil {
		timer := time.NewTicker(silentAfter)
		defer timer.Stop()
		silent = timer.C
	}
	for now := (&probe{}); ; {
		select {
		case t = <-done:
			return t, nil
		case <-ctx.Done():
			return t, ctx.Err()
		case <-silent:
			now = p.begin()
		case <-now.done:
			if now.alive {
				return afterProbe(ctx, done)
			}
			now = &probe{}
		}
	}
}

// afterProbe waits for a reply that should have come before that of the PING, since it was
// sent before: if this process stood still, neither was read.
func afterProbe[T any](ctx context.Context, done <-chan T) (t T, err error) {
	timer := time.NewTimer(silentGrace)
	defer timer.Stop()
	select {
	case t = <-done:
		return t, nil
	case <-ctx.Done():
		return t, ctx.Err()
	case <-timer.C:
		return t, errSilent
	}
}
