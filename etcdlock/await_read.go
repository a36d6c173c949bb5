package etcdlock

import (
	"context"
	"errors"
	"slices"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driverkit"
	"github.com/pawl-go/pawl/etcdlock/internal/etcdstore"
)

// recheckAfter is how long a waiter trusts its watches without asking the cluster. The
// watches are verified more often than that; the recheck is for changes that a server
// forgot to report, and for a cluster that was restored to an earlier state.
const recheckAfter = time.Minute

// roundOver answers for a round in which no change was reported.
func (w *waiter) roundOver(ctx context.Context) (driver.Standing, error) {
	if err := ctx.Err(); err != nil {
		return driver.Standing{}, err
	}
	if w.s.find(w.p.claim) != w.p { // a beat found it gone, or it was left
		return driver.Standing{Gone: true}, nil
	}
	if !w.blockersChecked { // the watch has not started yet
		return w.look(ctx, 0)
	}
	verified := w.verifyWatches(ctx)
	if verified && (time.Since(w.checkedAt) < recheckAfter || w.unchanged(ctx)) {
		return driver.Standing{Ahead: -1}, nil
	}
	before := w.currentBlockers()
	st, err := w.look(ctx, 0)
	if err == nil && (st.Held || !st.Gone && !slices.Equal(before, w.currentBlockers())) {
		w.blockers.Distrust()
	}
	if !verified {
		w.waitState.close()
	}
	return st, err
}

// verifyWatches reports whether the watches would have reported every change.
func (w *waiter) verifyWatches(ctx context.Context) bool {
	limit := min(w.s.lease.Timeout(), max(w.s.lease.TTL/2, time.Second))
	return w.blockers.Verify(ctx, limit) && (!w.ownChecked || w.own.Verify(ctx, limit))
}

// watchFailed answers after a watch broke or could not be started: it reads the line once,
// in place of the event. The caller calls Await again, which starts another watch. The
// pause keeps a cluster that refuses watches from being flooded.
func (w *waiter) watchFailed(ctx context.Context, reason error) (driver.Standing, error) {
	w.waitState.close()
	if errors.Is(reason, driver.ErrDenied) {
		return driver.Standing{}, reason
	}
	driverkit.Pause(w.round, 100*time.Millisecond)
	if err := ctx.Err(); err != nil {
		return driver.Standing{}, err
	}
	return w.s.look(ctx, w.p, 0)
}

// look reads the claim's standing. If the claim waits, every watch that was ready before
// the read is checked by it.
func (w *waiter) look(ctx context.Context, since int64) (driver.Standing, error) {
	blockersReady, ownReady := w.blockers.Ready(), w.own.Ready()
	st, err := w.s.look(ctx, w.p, since)
	waits := err == nil && !st.Held && !st.Gone
	if w.blockersChecked = waits && blockersReady; w.blockersChecked {
		w.checkedAt = time.Now()
	}
	w.ownChecked = w.ownChecked || waits && ownReady && since == 0
	return st, err
}

// inLine reports whether k was still in line at revision since or later. That is cheaper
// than to read the claim's standing; false may also mean that it was not learnt.
func (w *waiter) inLine(ctx context.Context, k claimKey, since int64) bool {
	reply, err := w.s.lease.Do(ctx, clientv3.OpGet(k.key, clientv3.WithKeysOnly(), clientv3.WithSerializable()))
	if err != nil {
		return false
	}
	got := reply.Get()
	return got.Header.Revision >= since && len(got.Kvs) == 1 && got.Kvs[0].CreateRevision == k.revision
}

// unchanged asks the cluster whether the claim and its only blocker are still in line.
// False may also mean that it was not learnt.
func (w *waiter) unchanged(ctx context.Context) bool {
	blockers := w.currentBlockers()
	if len(blockers) != 1 {
		return false
	}
	blocker, own := blockers[0], w.ownKey()
	unchanged, err := w.s.lease.Check(ctx, blocker.key,
		etcdstore.CreatedAt(blocker.key, blocker.revision), etcdstore.CreatedAt(own.key, own.revision))
	if err != nil || !unchanged {
		return false
	}
	w.checkedAt = time.Now()
	return true
}

// currentBlockers are the blockers of the claim when it was last read.
func (w *waiter) currentBlockers() []claimKey {
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	return w.p.blockers
}

func (w *waiter) ownKey() claimKey {
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	return claimKey{key: w.p.key, revision: w.p.revision}
}
