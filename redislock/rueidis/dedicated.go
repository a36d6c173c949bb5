package rueidis

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	redis "github.com/redis/rueidis"
)

// A dedicatedPool lends the connections of the client's pool, one to each caller.
type dedicatedPool struct {
	c     redis.Client
	tasks *sync.WaitGroup // of the client

	answered   atomic.Int64 // when a connection last answered, unix ns
	suspect    atomic.Int64 // until when connections are probed before use, unix ns
	connecting atomic.Int64 // probes that wait for the pool, which returns an idle connection at once
}

// A dedicated is a connection that no other caller uses.
type dedicated struct {
	redis.DedicatedClient
	release func()
	err     error // why there is none
}

const (
	maxProbes    = 63              // connections that one call probes
	probeTimeout = time.Second     // for the answer to one probe
	recent       = time.Second     // a connection that was used more recently is not probed
	suspectTime  = 5 * time.Second // how long connections are probed after a call without an answer
)

// use calls f with a connection, which is closed if f fails, if ctx ends, or if it is
// not to be kept. It returns when ctx ends, even if no connection is available, and
// reports whether f has ended.
func (p *dedicatedPool) use(ctx context.Context, take func(context.Context) (dedicated, error), keep bool, f func(redis.DedicatedClient) error) (ended bool, err error) {
	type outcome struct {
		called bool
		err    error
	}
	r, err := within(ctx, p.tasks, nil, func() outcome {
		d, err := take(ctx)
		if err != nil {
			return outcome{false, err}
		}
		defer d.release()
		stop := context.AfterFunc(ctx, d.Close) // a silent connection must not return to the pool
		err = f(d.DedicatedClient)
		if !stop() || err != nil || !keep {
			d.Close()
		}
		return outcome{true, err}
	})
	if err != nil {
		return false, err
	}
	return r.called, r.err
}

// used notes how a call on a connection went.
func (p *dedicatedPool) used(err error) {
	now := time.Now()
	if err == nil {
		p.answered.Store(now.UnixNano())
	} else {
		p.suspect.Store(now.Add(suspectTime).UnixNano())
	}
}

// suspected reports whether connections that are not probed may be silent.
func (p *dedicatedPool) suspected() bool {
	until := p.suspect.Load()
	return until != 0 && time.Now().UnixNano() < until
}

// pick returns any connection if one was used recently, else one that answers.
func (p *dedicatedPool) pick(ctx context.Context) (dedicated, error) {
	now := time.Now().UnixNano()
	if now-p.answered.Load() < int64(recent) && now > p.suspect.Load() {
		return p.any(ctx)
	}
	return p.live(ctx)
}

// any returns a connection of the pool without probing it.
func (p *dedicatedPool) any(context.Context) (dedicated, error) {
	d, release := p.c.Dedicate()
	return dedicated{DedicatedClient: d, release: release}, nil
}

// live returns a connection that answers. Idle connections in the client's pool may
// have died without notice, all at once, and the client lends those before it makes a
// new one. So while there is no answer, live probes more of them at a time, twice as many
// in each eighth of the time there is; a connection that does not answer leaves the
// pool. As soon as the client has to connect, the pool has no idle connections left and
// the server itself is slow: more connections would make it slower.
func (p *dedicatedPool) live(ctx context.Context) (dedicated, error) {
	gap := probeTimeout / 4
	if at, ok := ctx.Deadline(); ok {
		gap = max(min(gap, time.Until(at)/8), probeTimeout/200)
	}
	answers, over := make(chan dedicated), make(chan struct{})
	defer close(over)
	wave := time.NewTimer(gap)
	defer wave.Stop()
	probes, open := 0, 0
	more := func(n int) {
		for ; n > 0 && probes < maxProbes; n-- {
			probes, open = probes+1, open+1
			p.tasks.Go(func() { p.probe(answers, over) }) // ends by probeTimeout and the client's dial timeout; Close waits for it
		}
	}
	more(1)
	for {
		select {
		case d := <-answers:
			if d.err == nil {
				return d, nil
			}
			if open--; open == 0 {
				if probes > 2 { // that was the server, not an idle connection
					return dedicated{}, d.err
				}
				more(1)
			}
		case <-wave.C:
			if p.connecting.Load() == 0 {
				more(probes + 1)
			}
			wave.Reset(gap)
		case <-ctx.Done():
			return dedicated{}, ctx.Err()
		}
	}
}

// probe sends a PING on one connection.
func (p *dedicatedPool) probe(answers chan<- dedicated, over <-chan struct{}) {
	p.connecting.Add(1)
	d, release := p.c.Dedicate()
	p.connecting.Add(-1)
	ctx, cancel := context.WithTimeout(context.Background(), probeTimeout)
	defer cancel()
	err := d.Do(ctx, d.B().Ping().Build()).NonRedisError()
	if err != nil {
		d.Close()
	}
	select {
	case answers <- dedicated{d, release, err}:
	case <-over:
		if err == nil {
			release()
		}
	}
}
