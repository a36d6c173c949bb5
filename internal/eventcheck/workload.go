package eventcheck

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/internal/faultproxy"
)

// A worker takes and gives back locks of every kind, in every way.
type worker struct {
	c   *pawl.Client
	rnd *rand.Rand
}

func (w worker) run(ctx context.Context) {
	for ctx.Err() == nil {
		pause(ctx, 5*time.Millisecond+time.Duration(w.rnd.Int64N(int64(20*time.Millisecond)))) // leave the machine to others
		wait, cancel := context.WithTimeout(ctx, time.Duration(w.rnd.Int64N(int64(ttl/2))))
		l, err := w.take(wait)
		cancel()
		if err != nil {
			continue
		}
		w.hold(ctx, l)
	}
}

// take acquires something at random. Names are few, so that most acquires wait.
func (w worker) take(ctx context.Context) (*pawl.Lease, error) {
	c, name := w.c, fmt.Sprint("mutex", w.rnd.IntN(2))
	switch w.rnd.IntN(10) {
	case 0:
		return c.Mutex(name, pawl.WithFair()).Lock(ctx)
	case 1:
		return c.Mutex(name).TryLock(ctx)
	case 2:
		return c.Mutex(name, pawl.WithWait(time.Duration(w.rnd.Int64N(int64(50*time.Millisecond))))).Lock(ctx)
	case 3:
		return c.RWMutex("rwmutex").RLock(ctx)
	case 4:
		return c.RWMutex("rwmutex").Lock(ctx)
	case 5:
		l, err := c.Semaphore("semaphore", 3).Acquire(ctx, 1+w.rnd.IntN(3))
		if errors.Is(err, pawl.ErrUnsupported) {
			return c.Mutex(name).Lock(ctx)
		}
		return l, err
	case 6:
		return c.LockAll(ctx, []string{"mutex0", "mutex1", fmt.Sprint("own", w.rnd.IntN(3))})
	case 7:
		return c.Mutex(name, pawl.WithMaxHold(50*time.Millisecond)).Lock(ctx)
	default:
		return c.Mutex(name).Lock(ctx)
	}
}

// hold works under a lease for a moment and ends it in one of several ways.
func (w worker) hold(ctx context.Context, l *pawl.Lease) {
	work := time.Duration(w.rnd.Int64N(int64(4 * time.Millisecond)))
	how := w.rnd.IntN(40)
	if how == 0 {
		work = 200 * time.Millisecond // beyond the maximum hold
	}
	select {
	case <-l.Context().Done():
	case <-time.After(work):
	case <-ctx.Done():
		if how < 10 {
			return // left to Close
		}
	}
	_ = l.Unlock()
	if how == 1 {
		_ = l.Unlock() // once more
	}
}

// faults are what happens to the links and claims of the clients.
type faults struct {
	links []*faultproxy.Proxy // none: the store has no network
	c     *pawl.Client
	rnd   *rand.Rand
}

// bring brings one fault after the other, at least six, until enough reports that the
// work has had them all, and lets it go on for a moment after each.
func (f faults) bring(ctx context.Context, enough func() bool) {
	for n := 0; ctx.Err() == nil && (n < 6 || !enough()); n++ {
		f.evict(ctx)
		if len(f.links) > 0 {
			link := f.links[f.rnd.IntN(len(f.links))]
			switch f.rnd.IntN(3) {
			case 0:
				link.Reset()
			case 1:
				link.SwallowReplies(1+f.rnd.IntN(3), faultproxy.ThenCut())
			case 2:
				link.Delay(faultproxy.Both, 20*time.Millisecond)
			}
		}
		pause(ctx, 300*time.Millisecond)
		f.heal()
		pause(ctx, 300*time.Millisecond)
	}
}

// loseAll makes every client lose a lease: by silence, or by eviction where there is no
// network.
func (f faults) loseAll(ctx context.Context, all []*pawl.Client) error {
	var leases []*pawl.Lease
	for i, c := range all {
		l, err := c.Mutex(fmt.Sprint("kept", i)).Lock(ctx)
		if err != nil {
			return err
		}
		leases = append(leases, l)
	}
	for _, link := range f.links {
		link.BlackHole(faultproxy.Both)
	}
	for _, l := range leases {
		if len(f.links) == 0 {
			line, err := f.c.Line(ctx, l.Name())
			if err != nil || len(line) == 0 {
				return fmt.Errorf("the line of %s: %d claims, %w", l.Name(), len(line), err)
			}
			if err := f.c.Evict(ctx, line[0]); err != nil {
				return err
			}
		}
		select {
		case <-l.Context().Done():
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	for _, link := range f.links {
		link.Reset()
	}
	f.heal()
	return nil
}

func (f faults) heal() {
	for _, link := range f.links {
		link.Heal()
	}
}

// evict breaks the holders of every name.
func (f faults) evict(ctx context.Context) {
	for _, name := range []string{"mutex0", "mutex1", "rwmutex", "semaphore"} {
		call, cancel := context.WithTimeout(ctx, ttl)
		line, err := f.c.Line(call, name)
		if err == nil && len(line) > 0 {
			_ = f.c.Evict(call, line[0])
		}
		cancel()
	}
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
