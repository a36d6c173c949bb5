package etcdlock

import (
	"context"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/etcdlock/internal/etcdstore"
)

// ownWatchAfter is how long a claim waits before its own key is watched too. That key is
// deleted only when an operator breaks the claim, and one more watch for every short
// wait would cost more than it brings.
const ownWatchAfter = 500 * time.Millisecond

// Await waits until a claim that keeps c from being held leaves. Its watches outlive it
// and are used by the next call, so that a wait in which nothing happens costs no more
// than to verify, for all waiters of the engine together, that the watches still work.
func (s *session) Await(ctx context.Context, c driver.Claim, last driver.Standing) (driver.Standing, error) {
	if err := s.ready(ctx); err != nil {
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
	session := s.lease.Context()
	defer context.AfterFunc(session, cancel)() // closing the session ends its waits
	w := waiter{s: s, p: p, round: round, waitState: s.takeWait(p)}
	defer func() { s.keepWait(p, w.waitState) }()
	if len(w.currentBlockers()) == 0 {
		w.since = w.ownKey().revision // a member that has the claim knows what was ahead of it
	}
	st, err := w.wait(ctx)
	if session.Err() != nil && ctx.Err() == nil {
		return driver.Standing{}, driver.ErrGone
	}
	if err == nil && !st.Held && !st.Gone {
		st.Holder, st.Pause = s.holders.holder(ctx, p, s.lease.Calls), s.longPause()
	}
	return st, err
}

// takeWait gives the watches of p to a call of Await, of which there is one at a time.
func (s *session) takeWait(p *claimState) waitState {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := p.wait
	p.wait = waitState{}
	if w.own != nil && !w.own.Covers(p.key) { // the claim has another slot now
		w.own.Close()
		w.own, w.ownChecked = nil, false
	}
	return w
}

// keepWait keeps the watches for the next Await of p, if there can be one.
func (s *session) keepWait(p *claimState, w waitState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.claims[p.claim.ID] != p || p.left || p.held {
		w.close()
		return
	}
	p.wait = w
}

// A waiter is one call of Await.
type waiter struct {
	s     *session
	p     *claimState
	round context.Context // ends with the call's ctx, or when its time is over
	since int64           // the revision of the last reported change; 0: ask the cluster itself
	waitState
}

// wait starts the watch first and reads the line afterwards, so that no departure is
// missed in between. The watch has no start revision: the server serves watches that
// start in the past only ten times a second.
func (w *waiter) wait(ctx context.Context) (driver.Standing, error) {
	for {
		blockers := w.currentBlockers()
		if !coversAll(w.blockers, blockers) {
			w.blockers.Close()
			w.blockers, w.blockersChecked = w.s.lease.Watch(w.p.line.watchRange(blockers)), false
		}
		over, err := w.awaitStart(ctx, blockers)
		if err == nil && w.blockersChecked {
			over, err = w.awaitChange(ctx, blockers)
		}
		switch {
		case err != nil:
			return w.watchFailed(ctx, err)
		case over:
			return w.roundOver(ctx)
		}
		st, err := w.look(ctx, w.since)
		if err != nil || st.Held || st.Gone || w.round.Err() != nil {
			return st, err
		}
	}
}

// awaitStart returns when the watch on blockers has started. If there is one blocker and
// it is still in line, no further read is needed. over says that the round has ended.
func (w *waiter) awaitStart(ctx context.Context, blockers []claimKey) (over bool, err error) {
	if w.blockersChecked || w.blockers == nil {
		return false, nil
	}
	select {
	case <-w.blockers.Started:
	case <-w.round.Done():
		return true, nil
	}
	if err := w.blockers.Err; err != nil {
		return false, err
	}
	w.since, w.checkedAt = w.blockers.Revision, time.Now()
	w.blockersChecked = len(blockers) == 1 && w.inLine(ctx, blockers[0], w.since)
	return false, nil
}

// awaitChange returns when the claim must be read again: a blocker has left, or the claim
// itself is gone. over says that the round has ended before that.
func (w *waiter) awaitChange(ctx context.Context, blockers []claimKey) (over bool, err error) {
	var waitedLong <-chan time.Time
	if w.own == nil {
		timer := time.NewTimer(time.Until(w.p.since.Add(ownWatchAfter)))
		defer timer.Stop()
		waitedLong = timer.C
	}
	for {
		ownStarted, ownDeleted := w.ownEvents()
		select {
		case r, open := <-w.blockers.Responses:
			if err := w.blockers.Accept(r, open); err != nil {
				return false, err
			}
			if revision := departure(r, blockers); revision != 0 {
				w.since, w.blockersChecked = revision, false
				return false, nil
			}
		case <-waitedLong:
			w.own, waitedLong = w.s.lease.Watch(etcdstore.Key(w.ownKey().key)), nil
		case <-ownStarted:
			if err := w.own.Err; err != nil {
				return false, err
			}
			if w.ownChecked = w.inLine(ctx, w.ownKey(), w.own.Revision); !w.ownChecked {
				w.since, w.blockersChecked = 0, false
				return false, nil
			}
		case r, open := <-ownDeleted:
			w.since, w.blockersChecked, w.ownChecked = 0, false, false
			return false, w.own.Accept(r, open)
		case <-w.round.Done():
			return true, nil
		}
	}
}

// ownEvents is what the watch on the claim's own key reports next: that it has started,
// and after that, that the key was deleted.
func (w *waiter) ownEvents() (started <-chan struct{}, deleted clientv3.WatchChan) {
	switch {
	case w.own == nil:
		return nil, nil
	case w.ownChecked:
		return nil, w.own.Responses
	}
	return w.own.Started, nil
}

func coversAll(w *etcdstore.Watch, keys []claimKey) bool {
	for _, k := range keys {
		if !w.Covers(k.key) {
			return false
		}
	}
	return true
}

// departure returns the revision at which one of blockers left, if r reports it; else 0.
func departure(r clientv3.WatchResponse, blockers []claimKey) int64 {
	for _, event := range r.Events {
		for _, k := range blockers {
			if string(event.Kv.Key) == k.key {
				return event.Kv.ModRevision
			}
		}
	}
	return 0
}
