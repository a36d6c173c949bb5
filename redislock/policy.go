package redislock

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

const (
	policyPause   = time.Minute     // how often a server is asked again whether it may evict keys
	refusedPause  = time.Second     // and how often while it may
	policyTimeout = 5 * time.Second // for an answer that nobody waits for
)

// A policy knows whether the server may evict keys. An operator can change that
// at any time, and a failover brings another server, so it is asked again now and
// then. While it may, nothing new is granted.
type policy struct {
	c       Client
	allowed bool          // it may
	pause   time.Duration // between looks

	checking chan struct{}        // has room while nobody asks
	known    atomic.Bool          // it was asked once
	refusal  atomic.Pointer[text] // nil: it does not evict
	looked   atomic.Int64         // when it was asked last, unix ns

	begun  context.Context // ends when close begins
	finish context.CancelFunc
	tasks  sync.WaitGroup // looks that nobody waits for; close waits for them
	mu     sync.Mutex     // guards closed
	closed bool
}

// A text is an error.
type text string

func (t text) Error() string { return string(t) }

func newPolicy(c Client, o options) *policy {
	p := &policy{c: c, allowed: o.evictable, pause: o.policyPause, checking: make(chan struct{}, 1)}
	p.begun, p.finish = context.WithCancel(context.Background())
	return p
}

// fine says why nothing may be granted. It asks only if it does not know, or if
// the server evicted when it was last asked.
func (p *policy) fine(ctx context.Context) error {
	switch {
	case !p.known.Load():
		return p.look(ctx, 0)
	case p.refusal.Load() != nil:
		return p.look(ctx, refusedPause)
	}
	return nil
}

// again asks from time to time. It does not wait: a beat calls it.
func (p *policy) again() {
	if p.allowed || time.Since(time.Unix(0, p.looked.Load())) < p.pause {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	p.looked.Store(time.Now().UnixNano())
	p.tasks.Go(func() { // ends by policyTimeout, or with begun; close waits for it
		ctx, cancel := context.WithTimeout(p.begun, policyTimeout)
		defer cancel()
		_ = p.look(ctx, 0) // without an answer, what was known stands
	})
}

func (p *policy) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.finish()
	p.tasks.Wait()
}

// look asks the server, unless that was done less than age ago.
func (p *policy) look(ctx context.Context, age time.Duration) error {
	select {
	case p.checking <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-p.checking }()
	if !p.known.Load() || time.Since(time.Unix(0, p.looked.Load())) >= age {
		refusal, err := p.ask(ctx)
		if err != nil {
			return err
		}
		p.refusal.Store(refusal)
		p.looked.Store(time.Now().UnixNano())
		p.known.Store(true)
	}
	if refusal := p.refusal.Load(); refusal != nil {
		return *refusal
	}
	return nil
}

// ask refuses a server that may drop keys when its memory is full. One that does
// not let us ask is taken on trust.
func (p *policy) ask(ctx context.Context) (*text, error) {
	answers, err := p.c.All(ctx, []string{"INFO", "memory"})
	if err != nil {
		return nil, fault(err)
	}
	for _, a := range answers {
		if code(a.Err) == "NOPERM" {
			continue
		}
		if a.Err != nil {
			return nil, fault(a.Err)
		}
		policy, limit := infoField(a.Text, "maxmemory_policy"), infoField(a.Text, "maxmemory")
		if p.allowed || policy == "" || policy == "noeviction" || limit == "0" {
			continue
		}
		why := text(fmt.Sprintf("redislock: the server may evict locks (maxmemory-policy is %s): set it to noeviction, or allow it (AllowEviction, ?allow-eviction=yes)", policy))
		return &why, nil
	}
	return nil, nil
}
