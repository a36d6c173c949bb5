package etcdlock

import (
	"context"
	"errors"
	"slices"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/pawl-go/pawl/driver"
)

// selfAfter is how long a claim waits before its own key is watched too. That one
// goes only when an operator breaks the claim, and a watch more for every short
// wait would cost more than it tells.
const selfAfter = 500 * time.Millisecond

// Await waits until somebody who is in the way leaves. Its watches outlive it and
// are there for the next call, so that a wait in which nothing happens costs no
// more than to ask, for all that wait together, whether they would be told.
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
	w := waiter{s: s, p: p, round: round, vigil: s.take(p)}
	defer func() { s.park(p, w.vigil) }()
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
	round context.Context // ends with the call's ctx, or when its time is over
	since int64           // the revision of what was heard last; 0: ask the cluster itself
	vigil
}

// wait watches first and looks afterwards, so that no departure falls between.
// The watch has no start revision: one that starts in the past is served by the
// server's slow round, ten times a second.
func (w *waiter) wait(ctx context.Context) (driver.Standing, error) {
	for {
		way := w.way()
		if !w.turn.hears(way) {
			w.turn.close()
			w.turn, w.sure = w.s.e.attend(w.s.begun, w.p.line.around(way), patience(w.s.ttl)), false
		}
		over, err := w.listens(ctx, way)
		if err == nil && w.sure {
			over, err = w.hear(ctx, way)
		}
		switch {
		case err != nil:
			return w.deaf(ctx, err)
		case over:
			return w.still(ctx)
		}
		st, err := w.look(ctx, w.since)
		if err != nil || st.Held || st.Gone || w.round.Err() != nil {
			return st, err
		}
	}
}

// listens returns once the store has begun to tell of way, and is sure if the only
// one of them was there after that. It is over with the time for this round.
func (w *waiter) listens(ctx context.Context, way []mark) (over bool, err error) {
	if w.sure || w.turn == nil {
		return false, nil
	}
	select {
	case <-w.turn.begun:
	case <-w.round.Done():
		return true, nil
	}
	if w.turn.fault != nil {
		return false, w.turn.fault
	}
	w.since, w.seen = w.turn.since, time.Now()
	w.sure = len(way) == 1 && w.present(ctx, way[0], w.since)
	return false, nil
}

// look asks how the claim stands. From then on ears that are told are sure.
func (w *waiter) look(ctx context.Context, since int64) (driver.Standing, error) {
	turn, self := w.turn.ready(), w.self.ready()
	st, err := w.s.look(ctx, w.p, since)
	waits := err == nil && !st.Held && !st.Gone
	if w.sure = waits && turn; w.sure {
		w.seen = time.Now()
	}
	w.known = w.known || waits && self && since == 0
	return st, err
}

// present reports whether m was still there at revision since or later. That is a
// cheaper question than how the claim stands; anything but a clear yes is left to
// that one.
func (w *waiter) present(ctx context.Context, m mark, since int64) bool {
	call, cancel := w.s.brief(ctx)
	defer cancel()
	reply, err := w.s.e.client.Get(call, m.key, clientv3.WithKeysOnly(), clientv3.WithSerializable())
	return err == nil && reply.Header.Revision >= since && len(reply.Kvs) == 1 && reply.Kvs[0].CreateRevision == m.rev
}

// way is who was in the way when the claim was last looked at.
func (w *waiter) way() []mark {
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	return w.p.way
}

// own is the claim itself.
func (w *waiter) own() mark {
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	return mark{key: w.p.key, rev: w.p.rev}
}

// hear returns when it is worth looking: one of those in the way has left, or the
// claim itself is gone. Otherwise it is over with the time for this round.
func (w *waiter) hear(ctx context.Context, way []mark) (over bool, err error) {
	var long <-chan time.Time
	if w.self == nil {
		timer := time.NewTimer(time.Until(w.p.since.Add(selfAfter)))
		defer timer.Stop()
		long = timer.C
	}
	for {
		begins, gone := w.selfs()
		select {
		case r, open := <-w.turn.told:
			if err := w.turn.take(r, open); err != nil {
				return false, err
			}
			if rev := departed(r, way); rev != 0 {
				w.since, w.sure = rev, false
				return false, nil
			}
		case <-long:
			w.self, long = w.s.e.attend(w.s.begun, span{from: w.own().key}, patience(w.s.ttl)), nil
		case <-begins:
			if w.self.fault != nil {
				return false, w.self.fault
			}
			if w.known = w.present(ctx, w.own(), w.self.since); !w.known {
				w.since, w.sure = 0, false
				return false, nil
			}
		case r, open := <-gone:
			w.since, w.sure, w.known = 0, false, false
			return false, w.self.take(r, open)
		case <-w.round.Done():
			return true, nil
		}
	}
}

// selfs are what is to come of the ear on the claim's own key: that it is told, and
// then that the key is gone.
func (w *waiter) selfs() (begins <-chan struct{}, gone clientv3.WatchChan) {
	switch {
	case w.self == nil:
		return nil, nil
	case w.known:
		return nil, w.self.told
	}
	return w.self.begun, nil
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

// recheck is how long it is believed that nothing has happened because nothing was
// told. Whoever tells has been asked in between; this is for what a server forgot
// to tell, or a cluster that was put back to an earlier state.
const recheck = time.Minute

// still answers for a round in which nothing was told.
func (w *waiter) still(ctx context.Context) (driver.Standing, error) {
	if err := ctx.Err(); err != nil {
		return driver.Standing{}, err
	}
	if w.s.find(w.p.claim) != w.p { // the beat missed it, or it was left
		return driver.Standing{Gone: true}, nil
	}
	if !w.sure { // the store has not begun to tell yet
		return w.look(ctx, 0)
	}
	vouched := w.vouched(ctx, min(patience(w.s.ttl), max(w.s.ttl/2, time.Second)))
	if vouched && (time.Since(w.seen) < recheck || w.unmoved(ctx)) {
		return driver.Standing{Ahead: -1}, nil
	}
	before := w.way()
	st, err := w.look(ctx, 0)
	if err == nil && (st.Held || !st.Gone && !slices.Equal(before, w.way())) {
		w.turn.doubt() // it should have told
	}
	if !vouched {
		w.vigil.close()
	}
	return st, err
}

// unmoved asks the cluster whether the claim and the only one in its way are where
// they were. Anything but a clear yes is left to look.
func (w *waiter) unmoved(ctx context.Context) bool {
	way := w.way()
	if len(way) != 1 {
		return false
	}
	all := []mark{way[0], w.own()}
	ifs := make([]clientv3.Cmp, len(all))
	for i, m := range all {
		ifs[i] = created(m.key, m.rev)
	}
	call, cancel := w.s.brief(ctx)
	defer cancel()
	// It is the read in it that has the cluster asked, and not one member.
	reply, err := w.s.e.client.Txn(call).If(ifs...).Then(clientv3.OpGet(way[0].key, clientv3.WithCountOnly())).Commit()
	if err != nil || !reply.Succeeded {
		return false
	}
	w.seen = time.Now()
	return true
}

// deaf deals with a watch that broke or could not be had: what it would have told
// is looked for once. The caller comes back, and with it another watch; it does
// not come back at once, or a cluster that refuses watches would be flooded.
func (w *waiter) deaf(ctx context.Context, fault error) (driver.Standing, error) {
	w.vigil.close()
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
