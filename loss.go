package pawl

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-go/pawl/internal/claimset"
)

var (
	errLook    = errors.New("look again") // interrupts an Await
	errDead    = fmt.Errorf("%w: the store has ended our session", ErrLost)
	errLate    = fmt.Errorf("%w: not renewed before its deadline: the store did not answer in time, or this process stood still", ErrLost)
	errMaxHold = fmt.Errorf("%w: maximum hold reached", ErrLost)
	errFixed   = fmt.Errorf("%w: its TTL is over, and it is not renewed", ErrLost)
	errBroken  = fmt.Errorf("%w: the store no longer knows it: it expired there, or somebody broke it", ErrLost)
)

// whyLocked says why a hold whose deadline has passed is lost. One that lasted as long
// as its options asked for has not failed, and the error says so.
func (cl *claim) whyLocked(now instant) error {
	switch {
	case cl.OverLimit(now):
		return asAsked(errMaxHold, "maximum hold", cl.MaxHold, "WithMaxHold")
	case cl.s.fixed && now >= cl.Deadline():
		return asAsked(errFixed, "TTL", cl.s.ttl, "WithoutRenewal")
	}
	return cl.s.fault.loss()
}

// A beatFault is why the beats since the last good one have failed: the last refusal, or
// the last error where none was refused.
type beatFault struct {
	err     error
	refused bool    // the store answered, and did not want to
	good    instant // when the last good beat was sent
}

// note takes in the outcome of a beat. One that was stuck until after a later one had
// succeeded says nothing any more.
func (f *beatFault) note(sent instant, err error) {
	switch {
	case err == nil:
		*f = beatFault{good: max(f.good, sent)}
	case sent < f.good:
	default:
		refused := errors.Is(err, ErrDenied) ||
			!errors.Is(err, ErrUnreachable) && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled)
		if refused || !f.refused {
			f.err, f.refused = err, refused
		}
	}
}

// loss is the error of a hold that was not renewed. A refusal is part of it. The error of
// a store that did not answer is only shown: it may be a deadline, which is not the
// caller's, or contain one.
func (f *beatFault) loss() error {
	switch {
	case f.refused:
		return fmt.Errorf("%w: not renewed before its deadline: %w", ErrLost, f.err)
	case errors.Is(f.err, ErrUnreachable):
		return fmt.Errorf("%w (%v)", errLate, f.err)
	}
	return errLate
}

func asAsked(kind error, what string, d time.Duration, option string) error {
	return worded{kind, fmt.Sprintf("lease ended after its %s of %v, as asked (%s): the lock is no longer held", what, d, option)}
}

// whyEndedLocked says what ended a claim in the very moment it was to be given back.
func (cl *claim) whyEndedLocked() error {
	if cl.s.c.ctx.Err() != nil {
		return ErrClosed
	}
	return cl.whyLocked(cl.s.c.now())
}

// causeOf returns the cause of a loss.
func causeOf(why error) Cause {
	switch {
	case errors.Is(why, errDead):
		return SessionEnded
	case errors.Is(why, errBroken):
		return Broken
	case errors.Is(why, errMaxHold):
		return MaxHold
	case errors.Is(why, errFixed):
		return FixedTTL
	}
	return NotRenewed
}

// A loss is a hold that is not ours any more, and why.
type loss struct {
	cl    *claim
	why   error
	token uint64
	since instant
	ended bool // by this call of lose, which therefore does the rest too
	used  bool // it had leases
}

// lose ends holds that are not ours any more: all their contexts first, then the
// rest, so that an observer of one loss does not delay the end of another context.
// It may be called by any goroutine, any number of times.
func (s *session) lose(all ...loss) {
	for i := range all {
		s.endHold(&all[i])
	}
	for _, l := range all {
		if !l.ended {
			continue
		}
		now := s.c.now()
		after := now
		if errors.Is(l.why, errMaxHold) {
			after = now.Add(s.margin) // the work gets a moment to notice before another holder starts
		}
		s.depart(l.cl, after)
		if l.cl.gate != nil {
			l.cl.gate.vacate(l.cl)
		}
		if l.used { // else the observer was not told that it was acquired
			e := Event{Kind: Lost, Token: l.token, Took: now.Sub(l.since), Err: l.why}
			if l.why == ErrClosed {
				e.Kind = Released
			} else {
				e.Cause = causeOf(l.why)
			}
			s.tellEnd(l.cl, e)
		}
	}
}

// tellEnd tells of the end of a hold, but not before its beginning was told.
func (s *session) tellEnd(cl *claim, e Event) {
	s.mu.Lock()
	o, later := cl.o, cl.untold
	if later {
		cl.loss = &e
	}
	s.mu.Unlock()
	if later {
		return
	}
	s.c.tell(cl, o, e)
}

// told says that the beginning of a hold was told, and tells of its end if that came
// meanwhile.
func (s *session) told(cl *claim) {
	s.mu.Lock()
	e := cl.loss
	o := cl.o
	cl.untold, cl.loss = false, nil
	s.mu.Unlock()
	if e != nil {
		s.c.tell(cl, o, *e)
	}
}

// endHold ends the contexts of a lost hold, unless another call did.
func (s *session) endHold(l *loss) {
	s.mu.Lock()
	if l.cl.State() != claimset.Held {
		s.mu.Unlock()
		return
	}
	s.endLocked(l.cl)
	terms := l.cl.terms
	l.cl.terms = nil
	l.token, l.since, l.ended, l.used = l.cl.tokenLocked(), l.cl.since, true, len(terms) > 0
	s.mu.Unlock()
	s.endTerms(terms, l.why)
}

// endTerms ends leases, and the waits for a place inside them.
func (s *session) endTerms(terms []*term, why error) {
	for _, t := range terms {
		t.end(why)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range terms {
		t.wakeLocked()
	}
}

// observers are those of all claims.
func (s *session) observers() (all observers) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.set.Live() {
		all = append(all, c.Owner.(*claim).o.observers...)
	}
	return all
}

// die ends the session and every claim of it: the store said that it is gone, or the
// client is being closed.
func (s *session) die(why error) {
	s.mu.Lock()
	if s.set.Closed() {
		s.mu.Unlock()
		return
	}
	s.set.Close()
	var lost []loss
	for _, c := range s.set.Live() {
		cl := c.Owner.(*claim)
		cl.interruptLocked()
		lost = append(lost, loss{cl: cl, why: why})
	}
	s.mu.Unlock()
	s.forget()
	s.lose(lost...)
	s.shut()
}
