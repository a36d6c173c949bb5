package etcdlock

import (
	"context"
	"errors"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/pawl-go/pawl/driver"
)

// selfAfter is how long a waiter waits before it also watches its own key. That
// one goes only when an operator breaks the claim, and a watch more for every
// short wait would cost more than it tells.
const selfAfter = 500 * time.Millisecond

// Await waits until somebody who is in the way leaves.
func (s *session) Await(ctx context.Context, c driver.Claim, last driver.Standing) (driver.Standing, error) {
	if err := s.alive(ctx); err != nil {
		return driver.Standing{}, err
	}
	p := s.find(c)
	if p == nil {
		return driver.Standing{Gone: true}, nil
	}
	pause := last.Pause
	if pause <= 0 {
		pause = s.longPause()
	}
	round, cancel := context.WithTimeout(ctx, pause)
	defer cancel()
	defer context.AfterFunc(s.begun, cancel)() // a session that is closed ends its waits
	w := waiter{s: s, p: p, round: round}
	defer w.close()
	st, err := w.wait(ctx)
	if s.begun.Err() != nil && ctx.Err() == nil {
		return driver.Standing{}, driver.ErrGone
	}
	if err == nil && !st.Held && !st.Gone {
		st.Holder, st.Pause = s.holder(ctx, p), s.longPause()
	}
	return st, err
}

// A waiter is one call of Await.
type waiter struct {
	s     *session
	p     *spot
	round context.Context // ends with the call's ctx, or when it is time to look
	turn  *ear            // on who is in the way
	since int64           // the revision of what was heard last
	self  *ear            // on the claim's own key
}

func (w *waiter) close() {
	w.turn.close()
	w.self.close()
}

// wait watches first and looks afterwards, so that no departure falls between.
// The watch has no start revision: one that starts in the past is served by the
// server's slow round, ten times a second.
func (w *waiter) wait(ctx context.Context) (driver.Standing, error) {
	for {
		if way := w.way(); !w.turn.hears(way) {
			w.turn.close()
			var err error
			if w.turn, err = w.listen(w.p.line.around(way)); err != nil {
				return w.deaf(ctx, err)
			}
			w.since = w.turn.since
			if w.blocked(ctx, way) {
				if err := w.hear(); err != nil {
					return w.deaf(ctx, err)
				}
			}
		}
		st, err := w.s.look(ctx, w.p, w.since)
		if w.round.Err() != nil && err == nil && st.Held {
			w.turn.doubt() // it should have told
		}
		if err != nil || st.Held || st.Gone || w.round.Err() != nil {
			return st, err
		}
		if !w.turn.hears(w.way()) {
			continue // somebody else is in the way by now
		}
		if err := w.hear(); err != nil {
			return w.deaf(ctx, err)
		}
	}
}

// blocked reports whether the only one in the way was still there after the watch
// on it began. That is a cheaper question than how the claim stands; anything but
// a clear yes is left to that one.
func (w *waiter) blocked(ctx context.Context, way []mark) bool {
	if len(way) != 1 {
		return false
	}
	call, cancel := w.s.brief(ctx)
	defer cancel()
	reply, err := w.s.e.client.Get(call, way[0].key, clientv3.WithKeysOnly(), clientv3.WithSerializable())
	return err == nil && reply.Header.Revision >= w.since && len(reply.Kvs) == 1 && reply.Kvs[0].CreateRevision == way[0].rev
}

// way is who was in the way when the claim was last looked at.
func (w *waiter) way() []mark {
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	return w.p.way
}

// listen has as much patience as any other call.
func (w *waiter) listen(on span) (*ear, error) {
	return w.s.e.listen(w.round, on, patience(w.s.ttl))
}

// hear returns when it is worth looking: one of those in the way has left, the
// claim itself is gone, or the time for this round is over.
func (w *waiter) hear() error {
	way := w.way()
	timer := time.NewTimer(selfAfter)
	defer timer.Stop()
	if w.self != nil {
		timer.Stop()
	}
	for {
		select {
		case r, open := <-w.turn.told:
			if err := w.turn.fault(r, open); err != nil {
				return err
			}
			if rev := departed(r, way); rev != 0 {
				w.since = rev
				return nil
			}
		case r, open := <-w.self.ears():
			w.since = 0
			return w.self.fault(r, open)
		case <-timer.C:
			w.since = 0
			var err error
			w.self, err = w.listen(span{from: w.p.key})
			return err
		case <-w.round.Done():
			w.since = 0 // whatever it was that nobody told
			return nil
		}
	}
}

// departed returns the revision at which one of way left, if r tells of it.
func departed(r clientv3.WatchResponse, way []mark) int64 {
	for _, event := range r.Events {
		for _, m := range way {
			if string(event.Kv.Key) == m.key {
				return event.Kv.ModRevision
			}
		}
	}
	return 0
}

// deaf deals with a watch that broke or could not be had: what it would have told
// is looked for once. The caller comes back, and with it another watch; it does
// not come back at once, or a cluster that refuses watches would be flooded.
func (w *waiter) deaf(ctx context.Context, fault error) (driver.Standing, error) {
	if errors.Is(fault, driver.ErrDenied) {
		return driver.Standing{}, fault
	}
	timer := time.NewTimer(100 * time.Millisecond)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-w.round.Done():
	}
	if err := ctx.Err(); err != nil {
		return driver.Standing{}, err
	}
	return w.s.look(ctx, w.p, 0)
}
