package sqllock

import (
	"context"
	"time"
)

const (
	// tellTimeout bounds what a notice costs whoever sends it. On a machine that is
	// busy it may take longer; then it goes out later.
	tellTimeout = 250 * time.Millisecond
	// tellAgain is how long one attempt to tell the untold may take, and tellPause how
	// long the next one waits. After maxUntold they look by themselves: their cores ask
	// with every beat.
	tellAgain = 5 * time.Second
	tellPause = 50 * time.Millisecond
	maxUntold = time.Minute
)

// tell has claims looked after by those who wait for them, here and elsewhere. What
// was to be told is done already, so its caller's patience is not the question any
// more; but neither must he wait long.
func (e *Engine) tell(ctx context.Context, ids ...string) {
	elsewhere := e.wake(ids...)
	if e.d.Tell == nil || len(elsewhere) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tellTimeout)
	defer cancel()
	if e.d.Tell(ctx, elsewhere) == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return
	}
	e.untold = append(e.untold, elsewhere...)
	if !e.telling {
		e.telling = true
		e.tasks.Go(e.tellUntold) // Close ends it and waits for it
	}
}

// tellUntold tells those whose notice did not go out in time. Without it they would
// learn of their turn with their next beat, a third of a TTL later.
func (e *Engine) tellUntold() {
	for began := time.Now(); ; {
		e.mu.Lock()
		ids := e.untold
		e.untold = nil
		if e.telling = len(ids) > 0 && e.begun.Err() == nil; !e.telling {
			e.mu.Unlock()
			return
		}
		e.mu.Unlock()
		ctx, cancel := context.WithTimeout(e.begun, tellAgain)
		err := e.d.Tell(ctx, ids)
		cancel()
		if err == nil {
			began = time.Now()
			continue
		}
		if time.Since(began) < maxUntold {
			e.mu.Lock()
			e.untold = append(ids, e.untold...)
			e.mu.Unlock()
		}
		pause := time.NewTimer(tellPause)
		select {
		case <-pause.C:
		case <-e.begun.Done():
			pause.Stop()
		}
	}
}
