package driverkit

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// Subscriptions keep an engine subscribed to the topics that its waiters need, one
// connection's subscription for all waiters of a topic. A topic is whatever the store
// sends notifications by: a channel, a key, a subject.
//
// Notifications that a store sends while a subscription is down are lost. So each time
// it comes up it begins a new generation: a claim that was looked at in the present
// generation has missed nothing, and every other one has to be looked at again.
type Subscriptions struct {
	listen Listen
	begun  context.Context // ends when Close begins
	finish context.CancelFunc
	tasks  sync.WaitGroup // one goroutine for each subscription; Close waits for them

	mu     sync.RWMutex // guards what follows, and users and idle of each subscription
	open   map[string]*Subscription
	closed bool
}

// A Listen subscribes to a topic until ctx ends or the subscription breaks, and returns
// why. It calls up when the store has confirmed the subscription, and then message for
// each message, in order. An error marked with [Refused] reaches those that wait.
type Listen func(ctx context.Context, topic string, up func(), message func(string)) error

// A Subscription is one topic's. The nil Subscription is always up, in generation
// [InProcess].
type Subscription struct {
	of      *Subscriptions
	topic   string
	message func(string)
	stop    context.CancelFunc

	generation atomic.Uint64 // 0: it is down

	users int         // guarded by of.mu
	idle  *time.Timer // ends it some time after the last user; guarded by of.mu

	mu      sync.Mutex    // guards what follows
	changed chan struct{} // closed and replaced whenever the subscription comes up or goes down
	refused error         // why it will not come up
}

// generations counts over all subscriptions, so that no two generations are the same.
// The first one is above InProcess.
var generations atomic.Uint64

func nextGeneration() uint64 { return InProcess + generations.Add(1) }

// Refused marks an error of a [Listen] as the store's refusal: the subscription will not
// come up by itself. Await returns err then, in place of looking every 100 ms. The
// subscription is tried again all the same, while it has users.
func Refused(err error) error { return &refused{err} }

type refused struct{ err error }

func (r *refused) Error() string { return r.err.Error() }
func (r *refused) Unwrap() error { return r.err }

// NewSubscriptions returns no subscriptions yet, which use listen.
func NewSubscriptions(listen Listen) *Subscriptions {
	s := &Subscriptions{listen: listen, open: map[string]*Subscription{}}
	s.begun, s.finish = context.WithCancel(context.Background())
	return s
}

// Open returns the subscription to a topic, and begins it if there is none; it does not
// wait until that is up. Each Open is followed by one Release. message is called for
// each message, also between a Release and the next Open; it must not block. Of several
// Opens of one topic the first one's message counts. Open
// returns nil after Close.
func (s *Subscriptions) Open(topic string, message func(string)) *Subscription {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	sub := s.open[topic]
	if sub == nil {
		sub = &Subscription{of: s, topic: topic, message: message, changed: make(chan struct{})}
		var ctx context.Context
		ctx, sub.stop = context.WithCancel(s.begun)
		s.open[topic] = sub
		s.tasks.Go(func() { sub.keepUp(ctx) }) // ends with ctx
	}
	sub.users++
	if sub.idle != nil {
		sub.idle.Stop()
	}
	return sub
}

// Generation returns the present generation of the subscription to a topic; 0: it is
// down, or there is none.
func (s *Subscriptions) Generation(topic string) uint64 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if sub := s.open[topic]; sub != nil {
		return sub.generation.Load()
	}
	return 0
}

// Release gives the subscription back. After the last one it is kept for the next Open
// during keep; a negative keep is for ever.
func (sub *Subscription) Release(keep time.Duration) {
	s := sub.of
	s.mu.Lock()
	defer s.mu.Unlock()
	sub.users--
	switch {
	case sub.users > 0 || keep < 0:
	case keep == 0:
		sub.endLocked()
	case sub.idle == nil:
		sub.idle = time.AfterFunc(keep, sub.endIdle) // Close stops it
	default:
		sub.idle.Reset(keep)
	}
}

func (sub *Subscription) endIdle() {
	sub.of.mu.Lock()
	defer sub.of.mu.Unlock()
	if sub.users == 0 { // it may have been opened since the timer fired
		sub.endLocked()
	}
}

func (sub *Subscription) endLocked() {
	sub.stop()
	if sub.of.open[sub.topic] == sub {
		delete(sub.of.open, sub.topic)
	}
}

// State returns the present generation, 0 while the subscription is down, and a channel
// that is closed when that changes. err is why the subscription will not come up.
func (sub *Subscription) State() (generation uint64, changed <-chan struct{}, err error) {
	if sub == nil {
		return InProcess, nil, nil
	}
	sub.mu.Lock()
	defer sub.mu.Unlock()
	return sub.generation.Load(), sub.changed, sub.refused
}

// WaitUp waits until the subscription is up, and returns ctx's error or why it will not
// come up.
func (sub *Subscription) WaitUp(ctx context.Context) error {
	for {
		generation, changed, err := sub.State()
		if generation != 0 || err != nil {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// keepUp keeps the subscription up until ctx ends.
func (sub *Subscription) keepUp(ctx context.Context) {
	const shortest, longest = 5 * time.Millisecond, time.Second
	pause := shortest
	for {
		err := sub.of.listen(ctx, sub.topic, func() { sub.set(nextGeneration(), nil) }, sub.message)
		if sub.generation.Load() != 0 { // it was up
			pause = shortest
		}
		sub.set(0, err)
		if !Pause(ctx, pause) {
			return
		}
		pause = min(2*pause, longest)
	}
}

func (sub *Subscription) set(generation uint64, err error) {
	sub.mu.Lock()
	defer sub.mu.Unlock()
	sub.generation.Store(generation)
	sub.refused = nil
	if r, ok := errors.AsType[*refused](err); ok {
		sub.refused = r.err
	}
	close(sub.changed)
	sub.changed = make(chan struct{})
}

// Close ends all subscriptions and waits for their goroutines. It may be called twice.
func (s *Subscriptions) Close() {
	s.mu.Lock()
	s.closed = true
	for _, sub := range s.open {
		if sub.idle != nil {
			sub.idle.Stop()
		}
	}
	s.mu.Unlock()
	s.finish()
	s.tasks.Wait()
}
