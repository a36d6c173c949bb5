package drivertest

import (
	"context"
	"errors"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
)

func clientHeldBy(s *stage) {
	const note = "ana@ci-7: nightly build"
	a, b := s.client(pawl.WithNote(note)), s.client()
	l := s.lease(a.Mutex(s.name).Lock)
	_, err := s.patiently(s.ctx, b.Mutex(s.name).TryLock)
	var held *pawl.HeldError
	if !errors.Is(err, pawl.ErrHeld) || !errors.As(err, &held) {
		s.Fatalf("TryLock of a lock that is held: %v, not a HeldError", err)
	}
	if h := held.Holder; h != nil && (h.Note != note || h.Name != s.name || h.ID != l.ID()) {
		s.Errorf("held by %+v, not by %s of %q", h, l.ID(), note)
	}
	if _, err := s.patiently(s.ctx, a.Mutex(s.name).TryLock); !errors.Is(err, pawl.ErrHeld) {
		s.Errorf("TryLock of a lock that the same client holds: %v, not ErrHeld", err)
	}
	s.unlock(l)
}

func clientWaitEnds(s *stage) {
	const wait = 50 * time.Millisecond
	a, b := s.client(), s.client()
	l := s.lease(a.Mutex(s.name).Lock)
	s.lease(b.Mutex(s.name + "/warm").Lock) // the first contact of a client has rules of its own
	start := time.Now()
	_, err := s.bounded(s.ctx, b.Mutex(s.name, pawl.WithWait(wait)).Lock)
	if !errors.Is(err, pawl.ErrHeld) || errors.Is(err, context.DeadlineExceeded) {
		s.Errorf("a wait that WithWait ended: %v, not ErrHeld", err)
	}
	if took := time.Since(start); took < wait || took > wait+soon {
		s.Errorf("a wait of %v took %v", wait, took)
	}
	for _, m := range []*pawl.Mutex{b.Mutex(s.name), b.Mutex(s.name, pawl.WithFair())} {
		s.waitsInVain(m, wait)
	}
	s.eventually(soon, "the end of waits that were given up", func() bool {
		n := 0
		for _, e := range s.list(s.name) {
			if e.Name == s.name {
				n++
			}
		}
		return n == 1
	})
	s.unlock(l)
	s.unlock(s.lease(b.Mutex(s.name).Lock))
}

// waitsInVain waits for a lock that somebody holds, until ctx ends. A store that had
// no time to say so is given more.
func (s *stage) waitsInVain(m *pawl.Mutex, wait time.Duration) {
	ctx, cancel := context.WithTimeout(s.ctx, wait)
	defer cancel()
	_, err := s.bounded(ctx, m.Lock)
	var held *pawl.HeldError
	switch {
	case !errors.Is(err, context.DeadlineExceeded), errors.Is(err, pawl.ErrHeld):
		s.Errorf("a wait that ctx ended: %v, not ctx's error", err)
	case errors.As(err, &held), s.lossy: // with its last reply lost, the client has another thing to say
	case wait < time.Second:
		s.waitsInVain(m, 3*wait)
	default:
		s.Errorf("a wait that ctx ended after %v: %v, without a HeldError", wait, err)
	}
}

// clientEvicted waits once for the keeper to find out, and once unlocks at once.
func clientEvicted(s *stage) {
	ttl := max(s.ttl, time.Second)
	a, b := s.client(pawl.WithTTL(ttl)), s.client()
	l := s.lease(a.Mutex(s.name).Lock)
	s.evictThrough(b, l)
	s.until("the end of an evicted lease", l.Context().Done(), ttl+soon)
	if cause := context.Cause(l.Context()); !errors.Is(cause, pawl.ErrLost) || !errors.Is(l.Err(), pawl.ErrLost) {
		s.Errorf("an evicted lease ended with cause %v, Err %v, not ErrLost", cause, l.Err())
	}
	if err := l.Unlock(); !errors.Is(err, pawl.ErrLost) {
		s.Errorf("Unlock of an evicted lease: %v, not ErrLost", err)
	}
	l = s.lease(b.Mutex(s.name).Lock)
	s.evictThrough(a, l)
	err := l.Unlock()
	if lostReply := s.lossy && errors.Is(err, pawl.ErrUnknown); !errors.Is(err, pawl.ErrLost) && !lostReply { // gone at a repeated Leave says nothing
		s.Errorf("Unlock just after an eviction: %v, not ErrLost", err)
	}
}

// evictThrough breaks l as an operator does: it lists and evicts.
func (s *stage) evictThrough(c *pawl.Client, l *pawl.Lease) {
	s.Helper()
	evict := func() error {
		for e, err := range c.List(s.ctx, l.Name()) {
			if err != nil {
				return err
			}
			if e.Name != l.Name() || e.ID != l.ID() {
				continue
			}
			if e.Fence != l.Fence() {
				s.Errorf("List shows token %d, the lease has %d", e.Fence, l.Fence())
			}
			return c.Evict(s.ctx, e)
		}
		return nil
	}
	if err := again(s.ctx, s.lossy, evict); err != nil {
		s.Fatalf("evicting: %v", err)
	}
	for e, err := range c.List(s.ctx, l.Name()) {
		if err == nil && e.ID == l.ID() {
			s.Errorf("an evicted claim is still listed: %+v", e)
		}
	}
}

// clientRenewed may lose a lease on a machine that stalls, and is then right to: the
// next is longer, and one of three attempts must do.
func clientRenewed(s *stage) {
	ttl := s.ttl
	for range 3 {
		ttl = s.twice(ttl)
		a := s.client(pawl.WithTTL(ttl))
		l := s.lease(a.Mutex(s.name).Lock)
		token := l.Token()
		select {
		case <-l.Context().Done():
			s.Logf("a lease of %v ended by itself: %v", ttl, l.Err())
			continue
		case <-time.After(ttl + ttl/2):
		}
		b := s.client()
		other, err := s.patiently(s.ctx, b.Mutex(s.name).TryLock)
		if l.Err() == nil && !errors.Is(err, pawl.ErrHeld) {
			s.Errorf("TryLock beside a lease that is renewed: %v, not ErrHeld", err)
		}
		if err == nil { // l was lost, on a machine that stood still: this one is not to be in the way
			s.unlock(other)
		}
		if l.Token() != token {
			s.Errorf("renewal changed token %d to %d", token, l.Token())
		}
		if l.Err() == nil {
			err := s.giveBack(l)
			if err == nil {
				return
			}
			s.Logf("a lease of %v ended while it was given back: %v", ttl, err)
		}
	}
	s.Errorf("a lease of %v was never renewed in time", ttl)
}

func clientClose(s *stage) {
	a, b := s.client(), s.client()
	held := s.lease(a.Mutex(s.name).Lock)
	other := s.lease(b.Mutex(s.name + "/other").Lock)
	waits := s.start(func() error {
		_, err := a.Mutex(s.name + "/other").Lock(s.ctx)
		if !errors.Is(err, pawl.ErrClosed) {
			return errors.Join(errors.New("a wait that Close ended"), err)
		}
		return nil
	})
	time.Sleep(20 * time.Millisecond) // so that it most likely waits; before, it is ErrClosed too
	if err := s.closeClient(a); err != nil {
		s.Errorf("Close: %v", err)
	}
	waits.wait("Lock while the client is closed")
	if cause := context.Cause(held.Context()); !errors.Is(cause, pawl.ErrClosed) {
		s.Errorf("a lease of a closed client ended with %v, not ErrClosed", cause)
	}
	s.expectErr("Lock after Close", a.Mutex(s.name).Lock, pawl.ErrClosed)
	s.expectErr("TryLock after Close", a.Mutex(s.name).TryLock, pawl.ErrClosed)
	if err := s.closeClient(a); err != nil {
		s.Errorf("a second Close: %v", err)
	}
	s.promptly("locking what a closed client held", func() { s.unlock(s.lease(b.Mutex(s.name).Lock)) })
	s.unlock(other)
}

func clientLease(s *stage) {
	c := s.client()
	type key struct{}
	ctx, cancel := context.WithCancel(context.WithValue(s.ctx, key{}, "value"))
	l, err := s.patiently(ctx, c.Mutex(s.name).Lock)
	cancel()
	if err != nil {
		s.Fatalf("Lock: %v", err)
	}
	if err := l.Context().Err(); err != nil {
		s.Errorf("the ctx of Lock ended the hold: %v", err)
	}
	if l.Context().Value(key{}) != "value" {
		s.Error("the lease's context does not carry the values of Lock's ctx")
	}
	if l.Name() != s.name || l.ID() == "" || l.Err() != nil || time.Until(l.Deadline()) <= 0 {
		s.Errorf("a fresh lease: name %q, ID %q, Err %v, deadline in %v", l.Name(), l.ID(), l.Err(), time.Until(l.Deadline()))
	}
	if has := l.Token() != 0 && l.Fence() != 0; has != (s.can.Fencing != driver.None) {
		s.Errorf("fencing is %v, the token %d", s.can.Fencing, l.Token())
	}
	s.unlock(l)
	if cause := context.Cause(l.Context()); !errors.Is(cause, pawl.ErrReleased) || l.Err() == nil {
		s.Errorf("an unlocked lease: cause %v, Err %v, not ErrReleased", cause, l.Err())
	}
	if err := l.Unlock(); !errors.Is(err, pawl.ErrNotHeld) {
		s.Errorf("a second Unlock: %v, not ErrNotHeld", err)
	}
	s.unlock(s.lease(c.Mutex(s.name).TryLock))
}

func clientDo(s *stage) {
	c := s.client()
	fault := errors.New("the work failed")
	ran := 0
	err := again(s.ctx, s.lossy, func() error {
		return c.Mutex(s.name).Do(s.ctx, func(ctx context.Context, l *pawl.Lease) error {
			ran++
			if ctx.Err() != nil || l.Err() != nil {
				s.Errorf("inside Do: ctx %v, lease %v", ctx.Err(), l.Err())
			}
			return fault
		})
	})
	if !errors.Is(err, fault) || ran != 1 {
		s.Errorf("Do: %v after %d runs", err, ran)
	}
	s.unlock(s.lease(c.Mutex(s.name).TryLock))
}
