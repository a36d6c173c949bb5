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

// Notices are the claims of which each process is to be told, by its Owner. Under "" are
// those whose process is not known.
type Notices map[string][]string

func (n Notices) add(more Notices) {
	for owner, ids := range more {
		n[owner] = append(n[owner], ids...)
	}
}

// notify wakes the waiters of claims, in this process and in others. The batch that
// changed the claims is committed, so the notice goes out even if the caller's ctx has
// ended; but the caller must not wait for it long.
func (e *Engine) notify(ctx context.Context, claims ...changedClaim) {
	elsewhere := Notices{}
	for _, c := range claims {
		if len(e.waiters.Wake(c.id)) > 0 {
			elsewhere[c.owner] = append(elsewhere[c.owner], c.id)
		}
	}
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
	e.unsent.add(elsewhere)
	if !e.resending {
		e.resending = e.sessions.Go(e.resend) == nil
	}
}

// tell tells the processes in which the claims wait that a batch has changed, and the
// first that waits now, that it is: it is the one to notice a holder that dies.
func (e *Engine) tell(b *lineBatch) {
	if !b.tells || len(b.changed) == 0 && !b.departed {
		return
	}
	own := func(owner string) bool { return owner == e.d.Owner || owner == "" }
	if slices.ContainsFunc(b.firsts, own) {
		e.mu.Lock()
		closeLocked(&e.activity)
		e.mu.Unlock()
	}
	turns := make([]string, len(b.changed))
	for i, c := range b.changed {
		turns[i] = c.owner
	}
	slices.Sort(turns)
	slices.Sort(b.firsts)
	e.d.Tell(slices.DeleteFunc(slices.Compact(turns), own), slices.DeleteFunc(slices.Compact(b.firsts), own))
}

// resend sends the notices that did not go out in time. Without it their waiters would
// learn of their turn with their next beat, a third of a TTL later.
func (e *Engine) resend(running context.Context) {
	for began := time.Now(); ; {
		e.mu.Lock()
		unsent := e.unsent
		e.unsent = Notices{}
		if e.resending = len(unsent) > 0 && running.Err() == nil; !e.resending {
			e.mu.Unlock()
			return
		}
		e.mu.Unlock()
		ctx, cancel := context.WithTimeout(running, resendTimeout)
		err := e.d.Notify(ctx, unsent)
		cancel()
		if err == nil {
			began = time.Now()
			continue
		}
		if time.Since(began) < resendFor {
			e.mu.Lock()
			e.unsent.add(unsent)
			e.mu.Unlock()
		}
		driverkit.Pause(running, resendPause)
	}
}
