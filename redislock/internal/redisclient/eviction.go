package redisclient

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"
)

const (
	evictionRecheck = time.Minute     // how often the server's eviction policy is read again
	refusedRecheck  = time.Second     // how often while it is refused
	evictionTimeout = 5 * time.Second // of a check in the background
	nodeTimeout     = 2 * time.Second // for the answer of one node of a cluster
)

// An EvictionCheck knows whether the server may evict keys. An operator can change
// that at any time, and a failover brings another server, so the policy is read again
// from time to time. While keys may be evicted, nothing new is granted.
type EvictionCheck struct {
	c       Client
	allowed bool
	every   time.Duration

	checking chan struct{}            // buffered by one: has room while no check is under way
	known    atomic.Bool              // it was read once
	refusal  atomic.Pointer[evicting] // nil: keys are not evicted
	checked  atomic.Int64             // when it was last read, unix ns
}

// evicting is the error of a server that may evict keys.
type evicting string

func (e evicting) Error() string { return string(e) }

// NewEvictionCheck returns a check of c's servers. allowed accepts eviction; every is the
// time between checks, 0 for the default.
func NewEvictionCheck(c Client, allowed bool, every time.Duration) *EvictionCheck {
	if every == 0 {
		every = evictionRecheck
	}
	return &EvictionCheck{c: c, allowed: allowed, every: every, checking: make(chan struct{}, 1)}
}

// Err returns why nothing may be granted. It asks the server only if the policy is not
// yet known, or was refused when it was last read.
func (e *EvictionCheck) Err(ctx context.Context) error {
	switch {
	case !e.known.Load():
		return e.check(ctx, 0)
	case e.refusal.Load() != nil:
		return e.check(ctx, refusedRecheck)
	}
	return nil
}

// Refresh reads the policy in the background if that is due. start starts a goroutine of
// the engine's, unless that is closed.
func (e *EvictionCheck) Refresh(start func(task func(context.Context)) error) {
	if e.allowed || time.Since(time.Unix(0, e.checked.Load())) < e.every {
		return
	}
	e.checked.Store(time.Now().UnixNano())
	_ = start(func(ctx context.Context) { // ends by evictionTimeout, or with the engine
		ctx, cancel := context.WithTimeout(ctx, evictionTimeout)
		defer cancel()
		_ = e.check(ctx, 0) // without an answer, the last one stands
	})
}

// check reads the policy unless it was read less than age ago.
func (e *EvictionCheck) check(ctx context.Context, age time.Duration) error {
	select {
	case e.checking <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-e.checking }()
	if !e.known.Load() || time.Since(time.Unix(0, e.checked.Load())) >= age {
		refusal, err := e.read(ctx)
		if err != nil {
			return err
		}
		e.refusal.Store(refusal)
		e.checked.Store(time.Now().UnixNano())
		e.known.Store(true)
	}
	if refusal := e.refusal.Load(); refusal != nil {
		return *refusal
	}
	return nil
}

// read asks all masters. A server that does not permit INFO is trusted, and one that does
// not answer grants nothing: if another master answers, the check does not fail for it.
func (e *EvictionCheck) read(ctx context.Context) (refusal *evicting, err error) {
	var silent error
	answers := 0
	err = e.c.EachMaster(ctx, func(do Send) error {
		limited := ctx
		if e.c.Clustered() { // a node that is silent must not take the others' time
			var cancel context.CancelFunc
			limited, cancel = context.WithTimeout(ctx, nodeTimeout)
			defer cancel()
		}
		r, err := do(limited, Call{Name: "INFO", Args: []string{"memory"}})
		switch policy, limit := InfoField(r.Text, "maxmemory_policy"), InfoField(r.Text, "maxmemory"); {
		case ctx.Err() != nil:
			return ctx.Err()
		case Code(err) == "NOPERM":
		case err != nil && Code(err) == "":
			if silent = err; limited.Err() != nil {
				silent = errors.New(err.Error()) // not the end of the caller's ctx
			}
			return nil
		case err != nil:
			return err
		case !e.allowed && policy != "" && policy != "noeviction" && limit != "0":
			text := evicting(fmt.Sprintf("redislock: the server may evict locks (maxmemory-policy is %s): set it to noeviction, or accept that (WithEvictionAllowed, ?allow-eviction=yes)", policy))
			refusal = &text
		}
		answers++
		return nil
	})
	switch {
	case refusal != nil:
		return refusal, nil
	case err == nil && answers == 0:
		err = silent
	}
	return nil, Wrap(err)
}

// InfoField returns the value of a line "name:value" of INFO.
func InfoField(info, name string) string {
	for line := range strings.Lines(info) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
