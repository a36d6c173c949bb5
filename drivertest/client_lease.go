package drivertest

import (
	"context"
	"errors"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
)

func clientHeldBy(f *fixture) {
	const note = "ana@ci-7: nightly build"
	a, b := f.client(pawl.WithNote(note)), f.client()
	l := f.mustLock(a.Mutex(f.name).Lock)
	_, err := f.retryLock(f.ctx, b.Mutex(f.name).TryLock)
	var held *pawl.HeldError
	if !errors.Is(err, pawl.ErrHeld) || !errors.As(err, &held) {
		f.Fatalf("TryLock of a lock that is held: %v, not a HeldError", err)
	}
	if h := held.Holder; h != nil && (h.Note != note || h.Name != f.name || h.ID != l.ID()) {
		f.Errorf("held by %+v, not by %s of %q", h, l.ID(), note)
	}
	if _, err := f.retryLock(f.ctx, a.Mutex(f.name).TryLock); !errors.Is(err, pawl.ErrHeld) {
		f.Errorf("TryLock of a lock that the same client holds: %v, not ErrHeld", err)
	}
	f.unlock(l)
}

func clientWaitEnds(f *fixture) {
	const wait = 50 * time.Millisecond
	a, b := f.client(), f.client()
	l := f.mustLock(a.Mutex(f.name).Lock)
	f.mustLock(b.Mutex(f.name + "/warm").Lock) // the first call of a client fails fast instead of waiting
	start := time.Now()
	_, err := f.lockUntil(f.ctx, b.Mutex(f.name, pawl.WithWait(wait)).Lock)
	if !errors.Is(err, pawl.ErrHeld) || errors.Is(err, context.DeadlineExceeded) {
		f.Errorf("a wait that WithWait ended: %v, not ErrHeld", err)
	}
	if took := time.Since(start); took < wait || took > wait+soon {
		f.Errorf("a wait of %v took %v", wait, took)
	}
	for _, m := range []*pawl.Mutex{b.Mutex(f.name), b.Mutex(f.name, pawl.WithFair())} {
		f.waitsUntilTimeout(m, wait)
	}
	f.eventually(soon, "the end of waits that were given up", func() bool {
		n := 0
		for _, e := range f.list(f.name) {
			if e.Name == f.name {
				n++
			}
		}
		return n == 1
	})
	f.unlock(l)
	f.unlock(f.mustLock(b.Mutex(f.name).Lock))
}

// waitsUntilTimeout waits for a held lock until ctx ends. If the store was too slow
// to report the holder within wait, it tries again with a longer wait.
func (f *fixture) waitsUntilTimeout(m *pawl.Mutex, wait time.Duration) {
	ctx, cancel := context.WithTimeout(f.ctx, wait)
	defer cancel()
	_, err := f.lockUntil(ctx, m.Lock)
	var held *pawl.HeldError
	switch {
	case !errors.Is(err, context.DeadlineExceeded), errors.Is(err, pawl.ErrHeld):
		f.Errorf("a wait that ctx ended: %v, not ctx's error", err)
	case errors.As(err, &held), f.losesReplies: // if its last reply was lost, the client reports that instead
	case wait < time.Second:
		f.waitsUntilTimeout(m, 3*wait)
	default:
		f.Errorf("a wait that ctx ended after %v: %v, without a HeldError", wait, err)
	}
}

// clientEvicted checks twice: once the keeper discovers the eviction, once Unlock
// does.
func clientEvicted(f *fixture) {
	ttl := max(f.ttl, time.Second)
	a, b := f.client(pawl.WithTTL(ttl)), f.client()
	l := f.mustLock(a.Mutex(f.name).Lock)
	f.evictLease(b, l)
	f.waitClosed("the end of an evicted lease", l.Context().Done(), ttl+soon)
	if cause := context.Cause(l.Context()); !errors.Is(cause, pawl.ErrLost) || !errors.Is(l.Err(), pawl.ErrLost) {
		f.Errorf("an evicted lease ended with cause %v, Err %v, not ErrLost", cause, l.Err())
	}
	if err := l.Unlock(); !errors.Is(err, pawl.ErrLost) {
		f.Errorf("Unlock of an evicted lease: %v, not ErrLost", err)
	}
	l = f.mustLock(b.Mutex(f.name).Lock)
	f.evictLease(a, l)
	err := l.Unlock()
	if lostReply := f.losesReplies && errors.Is(err, pawl.ErrUnknown); !errors.Is(err, pawl.ErrLost) && !lostReply { // ErrGone in answer to a repeated Leave is ambiguous
		f.Errorf("Unlock just after an eviction: %v, not ErrLost", err)
	}
}

func clientConfirm(f *fixture) {
	a, b := f.client(), f.client()
	l := f.mustLock(a.Mutex(f.name).Lock)
	before := l.Deadline()
	if err := l.Confirm(f.ctx); err != nil {
		f.Fatalf("Confirm of a lock that is held: %v", err)
	}
	if after := l.Deadline(); after.Before(before.Add(-time.Millisecond)) { // computed from two readings of the clock
		f.Errorf("Confirm moved the deadline back by %v", before.Sub(after))
	}
	f.evictLease(b, l)
	if err := l.Confirm(f.ctx); !errors.Is(err, pawl.ErrLost) || !errors.Is(l.Err(), pawl.ErrLost) {
		f.Errorf("Confirm of an evicted lease: %v, Err %v, not ErrLost", err, l.Err())
	}
}

// evictLease breaks l as an operator would: with List and Evict.
func (f *fixture) evictLease(c *pawl.Client, l *pawl.Lease) {
	f.Helper()
	evict := func() error {
		for e, err := range c.List(f.ctx, l.Name()) {
			if err != nil {
				return err
			}
			if e.Name != l.Name() || e.ID != l.ID() {
				continue
			}
			if e.Fence != l.Fence() {
				f.Errorf("List shows token %d, the lease has %d", e.Fence, l.Fence())
			}
			return c.Evict(f.ctx, e)
		}
		return nil
	}
	if err := retryLostReply(f.ctx, f.losesReplies, evict); err != nil {
		f.Fatalf("evicting: %v", err)
	}
	for e, err := range c.List(f.ctx, l.Name()) {
		if err == nil && e.ID == l.ID() {
			f.Errorf("an evicted claim is still listed: %+v", e)
		}
	}
}

// clientRenewed makes three attempts with increasing TTLs: on a machine that
// stalls, losing the lease is correct.
func clientRenewed(f *fixture) {
	ttl := f.ttl
	for range 3 {
		ttl = f.doubled(ttl)
		a := f.client(pawl.WithTTL(ttl))
		l := f.mustLock(a.Mutex(f.name).Lock)
		token := l.Token()
		select {
		case <-l.Context().Done():
			f.Logf("a lease of %v ended by itself: %v", ttl, l.Err())
			continue
		case <-time.After(ttl + ttl/2):
		}
		b := f.client()
		other, err := f.retryLock(f.ctx, b.Mutex(f.name).TryLock)
		if l.Err() == nil && !errors.Is(err, pawl.ErrHeld) {
			f.Errorf("TryLock beside a lease that is renewed: %v, not ErrHeld", err)
		}
		if err == nil { // l was lost because the machine stalled; release this one for the next attempt
			f.unlock(other)
		}
		if l.Token() != token {
			f.Errorf("renewal changed token %d to %d", token, l.Token())
		}
		if l.Err() == nil {
			err := f.unlockErr(l)
			if err == nil {
				return
			}
			f.Logf("a lease of %v ended while it was given back: %v", ttl, err)
		}
	}
	f.Errorf("a lease of %v was never renewed in time", ttl)
}

func clientClose(f *fixture) {
	a, b := f.client(), f.client()
	held := f.mustLock(a.Mutex(f.name).Lock)
	other := f.mustLock(b.Mutex(f.name + "/other").Lock)
	waits := f.inBackground(func() error {
		_, err := a.Mutex(f.name + "/other").Lock(f.ctx)
		if !errors.Is(err, pawl.ErrClosed) {
			return errors.Join(errors.New("a wait that Close ended"), err)
		}
		return nil
	})
	time.Sleep(20 * time.Millisecond) // so that Lock is probably waiting; if it is not, it returns ErrClosed as well
	if err := f.closeClient(a); err != nil {
		f.Errorf("Close: %v", err)
	}
	waits.wait("Lock while the client is closed")
	if cause := context.Cause(held.Context()); !errors.Is(cause, pawl.ErrClosed) {
		f.Errorf("a lease of a closed client ended with %v, not ErrClosed", cause)
	}
	f.expectErr("Lock after Close", a.Mutex(f.name).Lock, pawl.ErrClosed)
	f.expectErr("TryLock after Close", a.Mutex(f.name).TryLock, pawl.ErrClosed)
	if err := f.closeClient(a); err != nil {
		f.Errorf("a second Close: %v", err)
	}
	f.promptly("locking what a closed client held", func() { f.unlock(f.mustLock(b.Mutex(f.name).Lock)) })
	f.unlock(other)
}

func clientLease(f *fixture) {
	c := f.client()
	type key struct{}
	ctx, cancel := context.WithCancel(context.WithValue(f.ctx, key{}, "value"))
	l, err := f.retryLock(ctx, c.Mutex(f.name).Lock)
	cancel()
	if err != nil {
		f.Fatalf("Lock: %v", err)
	}
	if err := l.Context().Err(); err != nil {
		f.Errorf("the ctx of Lock ended the hold: %v", err)
	}
	if l.Context().Value(key{}) != "value" {
		f.Error("the lease's context does not carry the values of Lock's ctx")
	}
	if l.Name() != f.name || l.ID() == "" || l.Err() != nil || time.Until(l.Deadline()) <= 0 {
		f.Errorf("a fresh lease: name %q, ID %q, Err %v, deadline in %v", l.Name(), l.ID(), l.Err(), time.Until(l.Deadline()))
	}
	if has := l.Token() != 0 && l.Fence() != 0; has != (f.can.Fencing != driver.None) {
		f.Errorf("fencing is %v, the token %d", f.can.Fencing, l.Token())
	}
	f.unlock(l)
	if cause := context.Cause(l.Context()); !errors.Is(cause, pawl.ErrReleased) || l.Err() == nil {
		f.Errorf("an unlocked lease: cause %v, Err %v, not ErrReleased", cause, l.Err())
	}
	if err := l.Unlock(); !errors.Is(err, pawl.ErrNotHeld) {
		f.Errorf("a second Unlock: %v, not ErrNotHeld", err)
	}
	f.unlock(f.mustLock(c.Mutex(f.name).TryLock))
}

func clientDo(f *fixture) {
	c := f.client()
	fault := errors.New("the work failed")
	ran := 0
	err := retryLostReply(f.ctx, f.losesReplies, func() error {
		return c.Mutex(f.name).Do(f.ctx, func(ctx context.Context, l *pawl.Lease) error {
			ran++
			if ctx.Err() != nil || l.Err() != nil {
				f.Errorf("inside Do: ctx %v, lease %v", ctx.Err(), l.Err())
			}
			return fault
		})
	})
	if !errors.Is(err, fault) || ran != 1 {
		f.Errorf("Do: %v after %d runs", err, ran)
	}
	f.unlock(f.mustLock(c.Mutex(f.name).TryLock))
}
