package soaktest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
)

// contend takes and releases locks until ctx ends.
func (a *audit) contend(ctx context.Context, c *pawl.Client, rnd *rand.Rand) {
	for ctx.Err() == nil {
		wait, cancel := context.WithTimeout(ctx, time.Duration(rnd.Int64N(int64(10*time.Second))))
		number := rnd.IntN(3)
		var l *pawl.Lease
		var err error
		name, units, limit := fmt.Sprint("mutex", number), 1, 1
		switch rnd.IntN(6) {
		case 0:
			l, err = c.Mutex(name, pawl.WithFair()).Lock(wait)
		case 1:
			l, err = c.Mutex(name).Lock(wait)
		case 2:
			l, err = c.Mutex(name).TryLock(wait)
		case 3:
			name, units, limit = fmt.Sprint("rwmutex", number), 1, driver.All
			l, err = c.RWMutex(name).RLock(wait)
		case 4:
			name, units, limit = fmt.Sprint("rwmutex", number), driver.All, driver.All
			l, err = c.RWMutex(name).Lock(wait)
		case 5:
			name, units, limit = fmt.Sprint("semaphore", number), 1+rnd.IntN(3), 3
			l, err = c.Semaphore(name, 3).Acquire(wait, units)
		}
		cancel()
		if err != nil {
			a.refused(name, err)
			continue
		}
		a.enter(c, name, l, units, limit)
		work := time.Duration(rnd.Int64N(int64(20 * time.Millisecond)))
		if rnd.IntN(300) == 0 {
			work = 3 * TTL // long enough for beats, and to be notified of an eviction
		}
		select {
		case <-l.Context().Done():
		case <-time.After(work):
		case <-ctx.Done():
		}
		a.leave(name, l)
		switch err := l.Unlock(); {
		case errors.Is(err, pawl.ErrLost):
			a.count("lost")
		case errors.Is(err, pawl.ErrUnknown):
			a.count("unlocks of unknown outcome")
		case err != nil:
			a.t.Errorf("Unlock of %s: %v", name, err)
		}
	}
}

// refused records that a lock could not be taken, for a transient reason.
func (a *audit) refused(name string, err error) {
	switch {
	case errors.Is(err, pawl.ErrUnreachable):
		a.count("store unreachable")
	case errors.Is(err, pawl.ErrHeld), errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		a.count("not acquired in time")
	default:
		a.t.Errorf("lock %s: %v", name, err)
	}
}

// evict breaks claims at random until ctx ends.
func (a *audit) evict(ctx context.Context, e driver.Engine, rnd *rand.Rand) {
	kinds := []string{"mutex", "rwmutex", "semaphore"}
	for ctx.Err() == nil {
		select {
		case <-time.After(time.Duration(rnd.Int64N(int64(500 * time.Millisecond)))):
		case <-ctx.Done():
			return
		}
		line, err := e.Line(ctx, fmt.Sprint(kinds[rnd.IntN(3)], rnd.IntN(3)))
		switch {
		case err != nil:
			a.count("looks at a line without an answer")
			continue
		case len(line) == 0:
			continue
		}
		x := line[rnd.IntN(min(len(line), 3))]
		before := a.evicting(x)
		switch err := e.Evict(ctx, x); {
		case err == nil:
			a.count("evicted")
			a.evictedNow(x)
		case errors.Is(err, driver.ErrGone): // it was not there any more
			a.count("gone before the eviction")
			if !before { // otherwise an eviction without an answer may have ended it
				a.notEvicted(x)
			}
		case !errors.Is(err, driver.ErrUnreachable) && ctx.Err() == nil:
			a.t.Errorf("Evict: %v", err)
		default:
			a.count("evictions without an answer")
		}
	}
}
