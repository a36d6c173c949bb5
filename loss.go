package pawl

import (
	"errors"
	"fmt"
	"time"
)

var (
	errLook    = errors.New("look again") // interrupts an Await
	errDead    = fmt.Errorf("%w: the store has ended our session", ErrLost)
	errLate    = fmt.Errorf("%w: not renewed before its deadline: the store did not answer in time, or this process stood still", ErrLost)
	errMaxHold = fmt.Errorf("%w: maximum hold reached", ErrLost)
	errBroken  = fmt.Errorf("%w: the store no longer knows it: it expired there, or somebody broke it", ErrLost)
)

// whyLocked says why a hold whose deadline has passed is lost. One that was to last no
// longer has not failed, and does not say so.
func (cl *claim) whyLocked(now instant) error {
	switch {
	case cl.limit != 0 && now >= cl.limit:
		if cl.o.maxHold == 0 { // the options are those of a lease nested in the one that set it
			return errMaxHold
		}
		return asAsked(errMaxHold, "maximum hold", cl.o.maxHold, "WithMaxHold")
	case cl.s.fixed && now >= cl.deadline():
		return asAsked(ErrLost, "TTL", cl.s.ttl, "WithoutRenewal")
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

// A loss is a hold that is not ours any more, and why.
type loss struct {
	cl    *claim
	why   error
	token uint64
	ended bool // by us, so that the rest is ours to do too
}

// lose ends holds that are not ours any more: all their contexts first, then the
// rest, so that whoever is told of one does not make another late. Anyone may
// call it, any number of times.
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
			after = now.add(s.margin) // the work gets a moment to notice before a rival starts
		}
		s.depart(l.cl, after)
		if l.cl.gate != nil {
			l.cl.gate.vacate(l.cl)
		}
		l.cl.observe(Event{Kind: Lost, Token: l.token, Took: now.sub(l.cl.granted), Err: l.why})
	}
}

// endHold ends a lost hold's contexts, unless somebody did.
func (s *session) endHold(l *loss) {
	s.mu.Lock()
	if l.cl.state != held {
		s.mu.Unlock()
		return
	}
	s.endLocked(l.cl)
	leases := l.cl.leases
	l.cl.leases = nil
	l.token, l.ended = l.cl.tokenLocked(), true
	s.mu.Unlock()
	for _, lease := range leases {
		lease.end(l.why)
	}
	s.wakeNests(leases)
}

// wakeNests ends the waits inside leases that have ended.
func (s *session) wakeNests(leases []*Lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range leases {
		for ; l != nil; l = l.within { // also in one that was given back before
			l.nest.wakeLocked()
		}
	}
}

// die ends the session and every claim of it: the store said that it is gone.
func (s *session) die(why error) {
	s.mu.Lock()
	if s.dead {
		s.mu.Unlock()
		return
	}
	s.dead = true
	claims := append([]*claim(nil), s.live...)
	s.mu.Unlock()
	s.c.forget(s)
	lost := make([]loss, len(claims))
	for i, cl := range claims {
		lost[i] = loss{cl: cl, why: why}
		s.interrupt(cl)
	}
	s.lose(lost...)
	s.shut()
}

// surrender ends every lease because the client is being closed. What the claims
// have in the store ends with the session.
func (s *session) surrender() {
	s.mu.Lock()
	s.dead, s.gaveUp = true, len(s.live) > 0
	var leases []*Lease
	for i := len(s.live) - 1; i >= 0; i-- {
		leases = append(leases, s.live[i].leases...)
		s.endLocked(s.live[i])
	}
	s.mu.Unlock()
	for _, l := range leases {
		l.end(ErrClosed)
	}
	s.wakeNests(leases)
}
