package pawl

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/claimset"
)

// Unlock gives the lock back; the lease's context ends first. It needs no
// context: it returns by the deadline at the latest, and within 5 s. ErrLost
// says that the lock was not ours any more, ErrNotHeld that it was given back
// before, ErrUnknown that the store did not answer, or only after a call that
// it left unanswered.
func (l *Lease) Unlock() error {
	if l.unlocked.Swap(true) {
		return l.c.fail("unlock", l.name, ErrNotHeld)
	}
	now := l.check()
	if !l.end(ErrReleased) {
		defer l.o.observers.settle() // the loss may have been found by check
		err := l.unlockParts()
		if why := l.ended(); !errors.Is(why, ErrReleased) {
			err = l.c.fail("unlock", l.name, why) // the loss is the answer
		}
		return err
	}
	if l.cl == nil {
		return l.unlockParts()
	}
	return l.c.fail("unlock", l.name, l.giveBack(now))
}

// unlockParts gives back the single names, all at once so that their bounds do
// not add up. One that its holder gave back before is not an error.
func (l *Lease) unlockParts() error {
	errs := make([]error, len(l.parts))
	var all sync.WaitGroup
	for i, p := range l.parts {
		all.Go(func() {
			if err := p.Unlock(); !errors.Is(err, ErrNotHeld) {
				errs[i] = err
			}
		})
	}
	all.Wait()
	return driver.Join(errs...)
}

// giveBack ends l's share of the claim, and with the last share the claim.
func (l *Lease) giveBack(now instant) error {
	cl, s := l.cl, l.cl.s
	s.mu.Lock()
	if cl.State() != claimset.Held {
		defer s.mu.Unlock()
		return cl.whyEndedLocked()
	}
	l.unnestLocked()
	cl.terms = slices.DeleteFunc(cl.terms, func(t *term) bool { return t == &l.term })
	cl.over++
	last, o, since := len(cl.terms) == 0, cl.o, cl.since
	s.mu.Unlock()
	if !last {
		return nil
	}
	defer o.observers.settle()
	// Told before another lease of the claim begins.
	l.c.tell(cl, o, Event{Kind: Released, Token: token(l.fence, l.pass), Took: now.Sub(since)})
	return cl.giveBack()
}

// giveBack passes a held claim without leases on, or leaves it.
func (cl *claim) giveBack() error {
	if cl.gate != nil && cl.gate.release(cl) {
		return nil
	}
	s := cl.s
	s.mu.Lock()
	if cl.State() != claimset.Held {
		defer s.mu.Unlock()
		return cl.whyEndedLocked()
	}
	s.unlocking = append(s.unlocking, cl) // before endLocked: the session must not retire meanwhile
	s.endLocked(cl)
	s.mu.Unlock()
	defer s.unlocked(cl)
	return s.leave(cl)
}

// unlocked says that Unlock has left cl, or that the keeper will.
func (s *session) unlocked(cl *claim) {
	s.mu.Lock()
	s.unlocking = slices.DeleteFunc(s.unlocking, func(o *claim) bool { return o == cl })
	awaited := s.endingLocked() || s.set.Closed() // the session ends with it; otherwise the keeper need not hurry
	s.mu.Unlock()
	if awaited {
		s.wakeKeeper()
	}
}

// errGivenOrLost is the answer to a Leave whose first copy got none, and of which
// the store knows nothing any more. That copy may have given the lock back; or the
// claim was evicted before it came, or lost with the store's data, and another
// process may have held the lock while its holder still worked.
var errGivenOrLost = fmt.Errorf("%w: the store no longer knows it; an earlier call, which got no answer, may have given it back", ErrUnknown)

// leave gives cl back while its caller waits, by the deadline at the latest.
// ErrGone from the first Leave says that the claim was not ours any more; after one
// that was not answered it says nothing.
func (s *session) leave(cl *claim) error {
	now, at := s.c.both()
	bound := min(cl.Deadline().Sub(now), maxBlock)
	ctx := callUntil(context.Background(), at.Add(bound)) // finish waits as long: nothing else need end it
	defer ctx.end()
	// An Enter that got no answer may have landed after the hold was evicted: a Leave
	// would end that claim, and not tell of the loss.
	if cl.unanswered != 0 && now < cl.unanswered.Add(s.ttl) && errors.Is(s.confirm(ctx, cl, cl.Fence()), errBroken) {
		s.depart(cl, s.c.now())
		return errBroken
	}
	again := time.Millisecond
	for repeated := false; ; repeated = true {
		err := s.d.Leave(ctx, cl.Claim.Claim)
		switch {
		case err == nil:
			s.departAgain(cl)
			return nil
		case errors.Is(err, driver.ErrGone) && repeated:
			s.departAgain(cl)
			return errGivenOrLost
		case errors.Is(err, driver.ErrGone):
			s.departAgain(cl)
			return errBroken
		case refused(err):
			s.depart(cl, s.c.now())
			return err
		}
		pause(ctx, again)
		again *= 2
		if ctx.Err() != nil {
			s.depart(cl, s.c.now())
			if errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, driver.ErrUnreachable) {
				err = worded{err, fmt.Sprintf("no answer for %v", bound.Round(time.Millisecond))}
			}
			return fmt.Errorf("%w: %w", ErrUnknown, err)
		}
	}
}
