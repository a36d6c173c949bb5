package rueidis

import (
	"context"
	"sync"
	"time"

	redis "github.com/redis/rueidis"

	"github.com/pawl-go/pawl/redislock"
)

// A convoy is one connection for trips to the server and back, one at a time. A
// caller who finds it idle makes a trip alone and reads the reply itself. Calls
// that come meanwhile make the next trip together, with the convoy's goroutine;
// where several of them take or give back locks, one command does it for all. On
// the client's own connections each call is passed on by one goroutine that writes
// for all and another that reads for all; a lock is two calls and nothing else, so
// that is most of what it costs.
//
// There are two, so that the server works for one while the callers of the other
// go on.
//
// Convoys are for a single node: behind sentinels and in a cluster the client
// changes servers, and would not take these connections along. Whoever cannot use
// one, because it is not there or its trip takes long, uses the client's own.
type convoy struct {
	leave chan struct{} // buffered by one: the goroutine is to go on from who was alone
	stop  chan struct{} // closed by end

	mu     sync.Mutex            // guards what follows
	d      redis.DedicatedClient // nil: there is no connection
	making bool
	ended  bool
	busy   bool      // a trip is under way, or about to begin
	failed bool      // the connection did, for who was alone
	left   time.Time // when the trip began
	next   []*redislock.Rider
	slow   chan struct{} // of who comes from now on; closed when they should look at their ctx
	slower chan struct{} // of who came before the alarm came last
	alarm  *time.Timer   // calls alarmed; runs while the convoy is in use
	runs   bool          // the alarm does
	used   bool          // the convoy was, since the alarm came last
	lone   lone          // the trip of one call that is under way

	dated dated // who is alone uses it, and nobody else
}

const (
	longTrip   = 50 * time.Millisecond // whoever comes later does not wait for its end
	patience   = 5 * time.Millisecond  // who has waited so long begins to look whether its ctx has ended
	mostRiders = 256
)

func newConvoy() *convoy {
	v := &convoy{leave: make(chan struct{}, 1), stop: make(chan struct{}), slow: make(chan struct{}), slower: make(chan struct{})}
	v.dated.Context = context.Background()
	v.alarm = time.AfterFunc(time.Hour, v.alarmed) // short, and it touches only the convoy: nobody need wait for it
	v.alarm.Stop()
	return v
}

// ride makes a call by convoy; ok is false if it has to be made otherwise.
func (c *client) ride(ctx context.Context, words []string) (r redislock.Reply, ok bool, err error) {
	for _, v := range c.convoys {
		if d := c.idle(ctx, v); d != nil {
			r, err = v.rideAlone(ctx, d, words)
			return r, true, err
		}
	}
	if len(c.convoys) == 0 {
		return r, false, nil
	}
	w := redislock.NewRider(words)
	slow := c.board(w)
	if slow == nil {
		w.Alight()
		return r, false, nil
	}
	if err := wait(ctx, w, slow); err != nil {
		return r, true, err // the rider is the convoy's now
	}
	a, ok := w.Alight()
	return a.Reply, ok, a.Err
}

// wait waits for the answer. To wait for the end of a ctx can cost more than all
// the rest of the call, and trips are short: so it does that only once slow says
// that this one is not.
func wait(ctx context.Context, w *redislock.Rider, slow <-chan struct{}) error {
	select {
	case <-w.Back:
		return nil
	case <-slow:
	}
	select {
	case <-w.Back:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// useLocked lets the alarm run: to start and stop it for every trip would cost as
// much as it saves.
func (v *convoy) useLocked() {
	v.used = true
	if !v.runs {
		v.runs = true
		v.alarm.Reset(patience)
	}
}

// alarmed tells those who have waited long.
func (v *convoy) alarmed() {
	v.mu.Lock()
	defer v.mu.Unlock()
	close(v.slower)
	v.slower, v.slow = v.slow, make(chan struct{})
	v.watchLocked()
	if v.runs = v.busy || v.used; v.runs { // so it comes twice after the last use
		v.alarm.Reset(patience)
	}
	v.used = false
}

// board lets a rider wait for the convoy that is back first. It returns the
// convoy's slow; nil if there is none to wait for.
func (c *client) board(w *redislock.Rider) (slow <-chan struct{}) {
	var best *convoy
	var left time.Time
	for _, v := range c.convoys {
		v.mu.Lock()
		if v.boardableLocked() && (best == nil || v.left.Before(left)) {
			best, left = v, v.left
		}
		v.mu.Unlock()
	}
	if best == nil || time.Since(left) > longTrip {
		return nil
	}
	best.mu.Lock()
	defer best.mu.Unlock()
	if !best.boardableLocked() { // it has come back just now
		return nil
	}
	best.useLocked()
	best.next = append(best.next, w)
	return best.slow
}

func (v *convoy) boardableLocked() bool {
	return v.d != nil && v.busy && !v.failed && !v.ended && len(v.next) < mostRiders
}

// drive makes the trips of those who travel together. It ends with the convoy, and
// gives the connection back, or with the connection.
func (v *convoy) drive(release func()) {
	t := redislock.Trip{Send: sender(v.d)}
	var load []*redislock.Rider
	for {
		select {
		case <-v.leave:
		case <-v.stop:
			if v.isBusy() { // whoever is alone brings the connection back
				<-v.leave
			}
			v.strand()
			release()
			return
		}
		if v.isLost() {
			v.strand().Close()
			return
		}
		for load = v.depart(load); len(load) > 0; load = v.depart(load) {
			if t.Make(load) {
				v.strand().Close()
				return
			}
		}
	}
}

// sender sends the commands of a trip on one connection.
func sender(d redis.DedicatedClient) func(cmds [][]string, out []redislock.Answer) (lost bool) {
	var built []redis.Completed
	return func(cmds [][]string, out []redislock.Answer) (lost bool) {
		built = built[:0]
		for _, words := range cmds {
			built = append(built, d.B().Arbitrary(words...).Build())
		}
		if len(cmds) == 1 {
			res := d.Do(context.Background(), built[0])
			out[0].Reply, out[0].Err = answer(res)
			return res.NonRedisError() != nil
		}
		for i, res := range d.DoMulti(context.Background(), built...) {
			out[i].Reply, out[i].Err = answer(res)
			lost = lost || res.NonRedisError() != nil
		}
		return lost
	}
}

func (v *convoy) isBusy() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.busy
}

func (v *convoy) isLost() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.failed
}

// depart takes those who wait; none ends the convoy's being busy.
func (v *convoy) depart(load []*redislock.Rider) []*redislock.Rider {
	clear(load)
	v.mu.Lock()
	defer v.mu.Unlock()
	load, v.next = v.next, load[:0]
	v.busy, v.left = len(load) > 0, time.Now()
	return load
}

// strand ends the use of a connection; those who wait for it go another way.
func (v *convoy) strand() redis.DedicatedClient {
	v.mu.Lock()
	defer v.mu.Unlock()
	d := v.d
	v.d, v.busy, v.failed = nil, false, false
	for _, w := range v.next {
		w.Walk()
	}
	v.next = nil
	return d
}

// makeConvoyLocked connects in the background: that may take long, and until then
// there are other connections.
func (c *client) makeConvoyLocked(v *convoy) {
	if v.making || v.ended {
		return
	}
	v.making = true
	c.tasks.Go(func() { // ends with the convoy, or by the client's dial limit; Close waits for it
		d, release := c.c.Dedicate()
		// The client does not say whether it has connected.
		err := d.Do(context.Background(), d.B().Ping().Build()).NonRedisError()
		v.mu.Lock()
		v.making = false
		if err != nil || v.ended {
			v.mu.Unlock()
			d.Close()
			return
		}
		v.d = d
		v.mu.Unlock()
		v.drive(release)
	})
}

// end lets the convoy's goroutine end when it is back.
func (v *convoy) end() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.ended {
		v.ended = true
		close(v.stop)
	}
}
