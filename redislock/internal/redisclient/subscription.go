package redisclient

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// Subscriptions are those of one engine: on one node one, in a cluster one per slot in
// which a claim waits. Each is kept up by a goroutine that ends with Close.
type Subscriptions struct {
	c       Client
	running context.Context // ends when Close begins
	stop    context.CancelFunc
	tasks   sync.WaitGroup

	mu        sync.RWMutex // guards what follows, and the fields of subscriptions that say so
	byChannel map[string]*Subscription
	closed    bool
}

// A Subscription receives the messages of one channel. Messages published while it is
// down are lost, so it counts its generations: a waiter that has read the line in the
// present generation has missed nothing.
type Subscription struct {
	all      *Subscriptions
	channel  string
	received func(message string)
	stop     context.CancelFunc

	generation atomic.Uint64 // 0: it is down
	users      int           // guarded by all.mu
	idle       time.Time     // when the last user left; guarded by all.mu
	changed    chan struct{} // closed and replaced whenever it goes up or down; guarded by all.mu
	err        error         // why it is down; guarded by all.mu
}

// generations counts those of all subscriptions, so that no two are equal.
var generations atomic.Uint64

// idleLimit is how long a subscription is kept in a cluster for the next waiter.
const idleLimit = 30 * time.Second

var errClosed = errors.New("redislock: engine is closed")

// NewSubscriptions returns the subscriptions of an engine.
func NewSubscriptions(c Client) *Subscriptions {
	s := &Subscriptions{c: c, byChannel: map[string]*Subscription{}}
	s.running, s.stop = context.WithCancel(context.Background())
	return s
}

// Generation returns the present generation of a channel's subscription, 0 if it is not
// up.
func (s *Subscriptions) Generation(channel string) uint64 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if sub := s.byChannel[channel]; sub != nil {
		return sub.generation.Load()
	}
	return 0
}

// Use returns the subscription of a channel, which begins if there is none. Each call
// is followed by Release or Drop.
func (s *Subscriptions) Use(channel string, received func(string)) (*Subscription, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errClosed
	}
	sub := s.byChannel[channel]
	if sub == nil {
		ctx, stop := context.WithCancel(s.running)
		sub = &Subscription{all: s, channel: channel, received: received, stop: stop, changed: make(chan struct{})}
		s.byChannel[channel] = sub
		s.tasks.Go(func() { sub.run(ctx) }) // ends with ctx; Close waits for it
	}
	sub.users++
	return sub, nil
}

// EndIdle ends the subscriptions that had no user for a while.
func (s *Subscriptions) EndIdle() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, sub := range s.byChannel {
		if sub.users == 0 && time.Since(sub.idle) > idleLimit {
			sub.endLocked()
		}
	}
}

// Close ends all subscriptions and waits for their goroutines.
func (s *Subscriptions) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.stop()
	s.tasks.Wait()
}

// Release ends one use. The subscription stays for the next.
func (sub *Subscription) Release() {
	sub.all.mu.Lock()
	defer sub.all.mu.Unlock()
	sub.users--
	if sub.users == 0 {
		sub.idle = time.Now()
	}
}

// Drop ends one use, and with the last one the subscription.
func (sub *Subscription) Drop() {
	sub.all.mu.Lock()
	defer sub.all.mu.Unlock()
	sub.users--
	if sub.users == 0 {
		sub.endLocked()
	}
}

func (sub *Subscription) endLocked() {
	sub.stop()
	delete(sub.all.byChannel, sub.channel)
}

// State returns the present generation, a channel that is closed when it changes, and
// why the subscription is down.
func (sub *Subscription) State() (generation uint64, changed <-chan struct{}, err error) {
	sub.all.mu.RLock()
	defer sub.all.mu.RUnlock()
	return sub.generation.Load(), sub.changed, sub.err
}

// run keeps the subscription up until ctx ends.
func (sub *Subscription) run(ctx context.Context) {
	const shortest, longest = 5 * time.Millisecond, time.Second
	pause := shortest
	for {
		err := sub.all.c.Subscribe(ctx, sub.channel, func() { sub.set(generations.Add(1), nil) }, sub.received)
		if sub.generation.Load() != 0 { // it was up
			pause = shortest
		}
		sub.set(0, err)
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

func (sub *Subscription) set(generation uint64, err error) {
	sub.all.mu.Lock()
	defer sub.all.mu.Unlock()
	sub.generation.Store(generation)
	sub.err = err
	close(sub.changed)
	sub.changed = make(chan struct{})
}
