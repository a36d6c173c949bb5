package sqlline

import (
	"context"
	"slices"
	"time"

	"github.com/pawl-go/pawl/driverkit"
)

const (
	// notifyTimeout bounds how long the caller of a batch waits for its notice to go
	// out. Later it goes out in the background.
	notifyTimeout = 250 * time.Millisecond
	// A background attempt takes resendTimeout at most, and the next one follows after
	// resendPause. After resendFor the waiters are left to find out by themselves, with
	// their next beat.
	resendTimeout = 5 * time.Second
	resendPause   = 50 * time.Millisecond
	resendFor     = time.Minute
)

// notify wakes the waiters of claims, in this process and in others. The batch that
// changed the claims is committed, so the notice goes out even if the caller's ctx has
// ended; but the caller must not wait for it long.
func (e *Engine) notify(ctx context.Context, ids ...string) {
	elsewhere := e.waiters.Wake(ids...)
	if e.d.Notify == nil || len(elsewhere) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), notifyTimeout)
	defer cancel()
	if e.d.Notify(ctx, elsewhere) == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.unsent = append(e.unsent, elsewhere...)
	if !e.resending {
		e.resending = e.sessions.Go(e.resend) == nil
	}
}

// tell tells the processes in which the claims wait that a batch has changed, and the
// first that waits now, that it is: it is the one to notice a holder that dies.
func (e *Engine) tell(b *lineBatch) {
	if !b.tells || len(b.owners) == 0 && !b.departed {
		return
	}
	own := func(owner string) bool { return owner == e.d.Owner }
	if slices.ContainsFunc(b.firsts, own) {
		e.mu.Lock()
		closeLocked(&e.activity)
		e.mu.Unlock()
	}
	slices.Sort(b.owners)
	slices.Sort(b.firsts)
	e.d.Tell(slices.DeleteFunc(slices.Compact(b.owners), own), slices.DeleteFunc(slices.Compact(b.firsts), own))
}

// resend sends the notices that did not go out in time. Without it their waiters would
// learn of their turn with their next beat, a third of a TTL later.
func (e *Engine) resend(running context.Context) {
	for began := time.Now(); ; {
		e.mu.Lock()
		ids := e.unsent
		e.unsent = nil
		if e.resending = len(ids) > 0 && running.Err() == nil; !e.resending {
			e.mu.Unlock()
			return
		}
		e.mu.Unlock()
		ctx, cancel := context.WithTimeout(running, resendTimeout)
		err := e.d.Notify(ctx, ids)
		cancel()
		if err == nil {
			began = time.Now()
			continue
		}
		if time.Since(began) < resendFor {
			e.mu.Lock()
			e.unsent = append(ids, e.unsent...)
			e.mu.Unlock()
		}
		driverkit.Pause(running, resendPause)
	}
}
