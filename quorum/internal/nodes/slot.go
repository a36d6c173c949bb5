package nodes

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// maxPending bounds the calls that wait for an answer of a node that has stopped
// answering, and with them the goroutines. A node that answers has no such bound.
const maxPending = 256

// LateAfter is the time after which an answer counts as late.
const LateAfter = time.Millisecond

// A Session is an open session at one node.
type Session struct {
	driver.Session
	Voter driver.Voter
	slot  *slot
}

// Check passes on the error of a call that the session made. If the node has ended the
// session, the next call opens a new one; if the node does not vote, the repairer is woken.
func (s *Session) Check(err error) error {
	switch {
	case errors.Is(err, driver.ErrGone):
		s.slot.drop(s)
	case errors.Is(err, driver.ErrNoVote):
		s.slot.needRepair()
	}
	return err
}

// A slot keeps the session at one node. The first call opens it, as does the first
// call after the node has ended it.
type slot struct {
	engine     driver.Engine
	options    driver.SessionOptions
	quorum     string          // the quorum's ID
	ctx        context.Context // ends when Sessions closes
	limit      time.Duration
	checkStore func(store string) error // refuses a store that another node uses
	needRepair func()

	opening chan struct{} // holds one element while a caller opens or closes the session
	session atomic.Pointer[Session]
	calls   sync.WaitGroup // calls that were started and have not returned

	pending         atomic.Int32
	late            atomic.Bool  // the last answer took longer than LateAfter, or an answer is overdue
	unansweredSince atomic.Int64 // unix ns; 0: the node has answered since it was last called
}

// open returns the session at the node.
func (k *slot) open(ctx context.Context) (*Session, error) {
	if s := k.session.Load(); s != nil {
		return s, nil
	}
	select {
	case k.opening <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-k.opening }()
	if s := k.session.Load(); s != nil {
		return s, nil
	}
	in, err := k.engine.Open(ctx, k.options)
	if err != nil {
		return nil, err
	}
	voter, ok := in.(driver.Voter)
	if !ok {
		err = fmt.Errorf("it cannot vote: %w", driver.ErrUnsupported)
	} else {
		var m driver.Membership
		if m, err = voter.Enlist(ctx, k.quorum); err == nil {
			err = k.checkStore(m.Store)
		}
	}
	if err != nil {
		return nil, driver.Join(err, in.Close(ctx))
	}
	s := &Session{in, voter, k}
	k.session.Store(s)
	return s, nil
}

// call makes one call at the node.
func (k *slot) call(ctx context.Context, f func(context.Context, *Session) error) error {
	start := time.Now().UnixNano()
	defer k.pending.Add(-1)
	if since := k.unansweredSince.Load(); k.pending.Add(1) > maxPending && since != 0 && start-since > int64(k.limit) {
		return fmt.Errorf("%d calls are unanswered: %w", maxPending, driver.ErrUnreachable)
	}
	k.unansweredSince.CompareAndSwap(0, start)
	s, err := k.open(ctx)
	if err == nil {
		err = f(ctx, s)
	}
	end := time.Now().UnixNano()
	if ctx.Err() == nil {
		k.unansweredSince.Store(0) // also for calls still in flight: the node does answer
	}
	if late := end-start > int64(LateAfter); late != k.late.Load() {
		k.late.Store(late)
	}
	return Timeout(err)
}

// drop closes a session that the node has ended, unless that was done before. The next
// session has the same ID and enters the same claims, so it is opened only after the
// Close, which could end them otherwise.
func (k *slot) drop(s *Session) {
	ctx, cancel := context.WithTimeout(k.ctx, k.limit)
	defer cancel()
	select {
	case k.opening <- struct{}{}:
	case <-ctx.Done():
		return
	}
	defer func() { <-k.opening }()
	if k.session.CompareAndSwap(s, nil) {
		_ = s.Close(ctx) // it has ended at the node; this frees what its client keeps
	}
}

// close waits for the calls in flight, one of which may be opening the session, and
// closes the session after last, if it is not nil, has made its calls.
func (k *slot) close(last func(context.Context, *Session)) error {
	k.calls.Wait()
	s := k.session.Load()
	if s == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(k.ctx, k.limit)
	defer cancel()
	if last != nil {
		last(ctx, s)
	}
	if err := s.Close(ctx); !errors.Is(err, driver.ErrGone) {
		return Timeout(err)
	}
	return nil
}
