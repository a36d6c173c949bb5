package redislock

import (
	"context"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// An ear is one subscription. On one node an engine has one, in a cluster one per
// slot in which somebody waits. What was said while it was not up is lost, so it
// counts its beginnings: who has looked since the last one has missed nothing.
type ear struct {
	channel string
	got     func(message string)
	stop    context.CancelFunc

	now     atomic.Uint64 // which beginning it is in; 0: it is not up
	users   int           // guarded by the engine's mu
	idle    time.Time     // when the last user left; guarded by the engine's mu
	changed chan struct{} // closed and replaced whenever it comes up or goes down; guarded by the engine's mu
	err     error         // why it is not up; guarded by the engine's mu
}

// beginnings counts those of all ears, so that no two are the same.
var beginnings atomic.Uint64

// idleEar is how long an ear in a cluster is kept for the next who waits.
const idleEar = 30 * time.Second

// hears says in which beginning of its subscription a channel is heard now; 0:
// it is not.
func (e *Engine) hears(channel string) uint64 {
	e.mu.RLock()
	defer e.mu.RUnlock()
	if a := e.ears[channel]; a != nil {
		return a.now.Load()
	}
	return 0
}

// listen returns the ear for a channel, which is made if there is none. Each call
// is followed by one of ignore.
func (e *Engine) listen(channel string, got func(string)) (*ear, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil, errClosed
	}
	a := e.ears[channel]
	if a == nil {
		ctx, stop := context.WithCancel(e.begun)
		a = &ear{channel: channel, got: got, stop: stop, changed: make(chan struct{})}
		e.ears[channel] = a
		e.tasks.Go(func() { e.hear(ctx, a) }) // ends with ctx; Close waits for it
	}
	a.users++
	return a, nil
}

func (e *Engine) ignore(a *ear) {
	e.mu.Lock()
	defer e.mu.Unlock()
	a.users--
	if a.users == 0 {
		a.idle = time.Now()
	}
}

// silence is ignore for an ear that is not worth keeping.
func (e *Engine) silence(a *ear) {
	e.mu.Lock()
	defer e.mu.Unlock()
	a.users--
	if a.users == 0 {
		e.endEarLocked(a)
	}
}

func (e *Engine) endEarLocked(a *ear) {
	a.stop()
	delete(e.ears, a.channel)
}

// sweepEars ends the subscriptions that nobody has needed for a while. The one of
// a single node is kept, since there is one.
func (e *Engine) sweepEars() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for channel, a := range e.ears {
		if a.users == 0 && time.Since(a.idle) > idleEar && channel != e.keys.channel(e.id, "") {
			e.endEarLocked(a)
		}
	}
}

// hear keeps a subscription up until ctx ends.
func (e *Engine) hear(ctx context.Context, a *ear) {
	const shortest, longest = 5 * time.Millisecond, time.Second
	pause := shortest
	for {
		err := e.c.Listen(ctx, a.channel, func() { e.earIs(a, beginnings.Add(1), nil) }, a.got)
		if a.now.Load() != 0 { // it was up
			pause = shortest
		}
		e.earIs(a, 0, err)
		if ctx.Err() != nil {
			return
		}
		wait := time.NewTimer(pause)
		pause = min(2*pause, longest)
		select {
		case <-wait.C:
		case <-ctx.Done():
			wait.Stop()
			return
		}
	}
}

func (e *Engine) earIs(a *ear, beginning uint64, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	a.now.Store(beginning)
	a.err = err
	close(a.changed)
	a.changed = make(chan struct{})
}

// state returns in which beginning an ear is, what is closed when that changes, and
// why it is in none.
func (e *Engine) state(a *ear) (now uint64, changed <-chan struct{}, why error) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return a.now.Load(), a.changed, a.err
}

// deliver takes word of a claim to it: "<session> <id> <try> <token>", where
// token 0 says that something has become of it and it should look.
func (e *Engine) deliver(message string) {
	w := strings.Split(message, " ")
	if len(w) != 4 {
		return
	}
	try, err := strconv.Atoi(w[2])
	if err != nil {
		return
	}
	token, err := strconv.ParseUint(w[3], 10, 64)
	if err != nil {
		return
	}
	e.mu.RLock()
	s := e.sessions[unword(w[0])]
	e.mu.RUnlock()
	if s != nil {
		s.told(w[1], try, token)
	}
}
