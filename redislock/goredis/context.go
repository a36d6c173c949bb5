package goredis

import (
	"context"
	"sync"
	"time"
)

// slowCall is how long a caller waits before it also selects on ctx.Done.
const slowCall = 5 * time.Millisecond

var timers = sync.Pool{New: func() any { return time.NewTimer(time.Hour) }}

// await waits until done, or ctx ends. Selecting on ctx.Done can cost as much as a call,
// and calls are short: so that begins only after slow was called. From silent on, if that
// is not 0, connections are probed, and if others are answered await returns errSilent.
func await(ctx context.Context, done <-chan struct{}, slow func(), silent time.Duration, p *prober) error {
	t := timers.Get().(*time.Timer)
	t.Reset(slowCall)
	defer timers.Put(t)
	defer t.Stop()
	select {
	case <-done:
		return nil
	case <-t.C:
		slow()
	}
	if silent > 0 {
		t.Reset(silent)
	}
	alive := false
	for now := (&probe{}); ; {
		select {
		case <-done:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-t.C:
			if alive {
				return errSilent
			}
			now = p.begin()
		case <-now.done:
			// A call that was sent before the PING should have been answered before: if
			// this process stood still, neither reply was read.
			if alive = now.alive; alive {
				silent = silentGrace
			}
			now = &probe{}
			t.Reset(silent)
		}
	}
}

// withoutDone is a ctx whose end is noticed by await; go-redis uses at most the deadline.
type withoutDone struct{ context.Context }

func (withoutDone) Done() <-chan struct{} { return nil }
