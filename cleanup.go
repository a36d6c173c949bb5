package pawl

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/claimset"
)

// A departure is a claim that must not stay in the store: given up, lost, or
// left without an answer. The keeper repeats its Leave until it is answered and
// one TTL has passed since the last Enter that was not: that Enter may still be
// on its way, arrive after a Leave that found nothing, and stand in line for as
// long as the session lives.
type departure struct {
	claim   driver.Claim
	after   instant // not to be left before this
	arrives instant // when the last unanswered Enter can no longer arrive; 0: there was none
	busy    bool    // a Leave is under way
	again   instant // when to repeat
	since   instant // when it was put on the list
	tries   int     // Leaves that did not complete it
}

// maxDepartures is how many departures may be open on a store that does not answer
// before acquires are refused.
const maxDepartures = 256

// maxLeavers is how many Leaves of departures are under way at a time.
const maxLeavers = 8

// overloaded returns an error if too many departures are open and the store is
// silent: no call that was sent within the last TTL was answered, not even a beat.
// Departures alone refuse nothing, however many they are: a store that answers
// completes them in time.
func (s *session) overloaded() error {
	silent := s.silent()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.departures) < maxDepartures || silent <= s.ttl {
		return nil
	}
	return fmt.Errorf("%w; %d earlier calls are not settled yet", noAnswer(silent), len(s.departures))
}

// overdue reports whether a departure need not be tried any more. The claim has not
// been prolonged since it was put on the list, so it has expired: an Enter that
// arrives at the last moment lives for one TTL, and so does a claim whose last beat
// is as late.
func (s *session) overdue(d *departure, now instant) bool {
	return !d.busy && now >= max(d.since, d.arrives).Add(2*s.ttl)
}

func (d *departure) due() instant {
	if d.busy {
		return claimset.Never
	}
	return max(d.after, d.again)
}

// depart has the keeper leave cl.
func (s *session) depart(cl *claim, after instant) {
	d := &departure{claim: cl.Claim.Claim, after: after, since: s.c.now()}
	if cl.unanswered != 0 {
		d.arrives = cl.unanswered.Add(s.ttl)
	}
	s.addDeparture(d)
}

// departAgain has the keeper leave once more a claim whose Leave was answered, if an
// earlier Enter of it may still arrive.
func (s *session) departAgain(cl *claim) {
	if cl.unanswered == 0 {
		return
	}
	now := s.c.now()
	d := &departure{claim: cl.Claim.Claim, since: now, arrives: cl.unanswered.Add(s.ttl), again: now.Add(s.retryDelay(0)), tries: 1}
	if now < d.arrives {
		s.addDeparture(d)
	}
}

func (s *session) addDeparture(d *departure) {
	s.mu.Lock()
	s.departures = append(s.departures, d)
	s.mu.Unlock()
	s.wakeKeeper()
}

// handBack has the keeper leave a held claim without leases.
func (s *session) handBack(cl *claim) {
	if s.end(cl) {
		s.depart(cl, s.c.now())
	}
}

// abandon ends a claim that was not granted, and has the keeper leave what the store
// may have of it.
func (s *session) abandon(cl *claim) {
	if cl.unanswered != 0 || cl.is(claimset.Waiting) {
		s.depart(cl, s.c.now())
	}
	s.end(cl)
}

// leaveDue sends the Leaves that are due, in the background.
func (s *session) leaveDue(now instant) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.set.Closed() {
		return // the session's end ends them too
	}
	overdue := func(d *departure) bool { return s.overdue(d, now) }
	if !s.c.features.BySession {
		s.departures = slices.DeleteFunc(s.departures, overdue)
	} else if slices.ContainsFunc(s.departures, overdue) {
		s.set.Retire() // what cannot be left ends with the session alone; until then it is repeated
	}
	var due []*departure
	for _, d := range s.departures {
		if now >= d.due() {
			d.busy = true
			due = append(due, d)
		}
	}
	for some := range slices.Chunk(due, 1+len(due)/maxLeavers) {
		s.calls.Go(func() { s.leaveAll(some) }) // finish waits for it
	}
}

// leaveAll leaves one after the other. If the store does not answer one of them, the
// others are put off.
func (s *session) leaveAll(due []*departure) {
	checked := map[string]instant{} // when leaveUnknown was called for a name
	for i, d := range due {
		final := d.arrives != 0 && s.c.now() >= d.arrives
		ctx, cancel := context.WithTimeout(s.ctx, s.ttl/6)
		err := s.d.Leave(ctx, d.claim)
		if final && answered(err) && checked[d.claim.Name] < d.arrives {
			checked[d.claim.Name] = s.c.now()
			err = s.leaveUnknown(ctx, d.claim.Name)
		}
		cancel()
		if !s.left(d, err, final) {
			s.putOff(due[i+1:], d.again)
			break
		}
	}
	s.wakeKeeper()
}

// answered reports whether a Leave was carried out, or found nothing to do.
func answered(err error) bool { return err == nil || errors.Is(err, driver.ErrGone) }

// left takes in the answer to a Leave. It reports false if there was none.
func (s *session) left(d *departure, err error, final bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	d.busy = false
	remove := func() {
		s.departures = slices.DeleteFunc(s.departures, func(o *departure) bool { return o == d })
	}
	if answered(err) && (d.arrives == 0 || final) {
		remove()
		return true
	}
	d.again = s.c.now().Add(s.retryDelay(d.tries))
	d.tries++
	if answered(err) || refused(err) {
		return true
	}
	remove() // and to the end of the list, so that it does not delay the same ones each time
	s.departures = append(s.departures, d)
	return false
}

func (s *session) putOff(ds []*departure, again instant) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, d := range ds {
		d.busy, d.again = false, again
	}
}

// retryDelay is how long after a Leave the next one is sent: soon at first, since an
// Enter that was overtaken by the Leave mostly comes right behind it.
func (s *session) retryDelay(tries int) time.Duration {
	return min(s.ttl/30<<min(tries, 4), s.ttl/3)
}

// leaveUnknown compares what the store has of this session under a name with the
// claims of this process, and leaves the others.
func (s *session) leaveUnknown(ctx context.Context, name string) error {
	line, err := s.c.engine.Line(ctx, name)
	if err != nil {
		return err
	}
	for _, e := range line {
		if e.Session != s.id || s.knows(e.ID) {
			continue
		}
		if err := s.d.Leave(ctx, e.Claim); !answered(err) {
			return err
		}
	}
	return nil
}

// knows reports whether a claim with this ID is ours: also one that is entering right
// now, whose answer may say that it holds.
func (s *session) knows(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.set.Knows(id) ||
		slices.ContainsFunc(s.unlocking, func(cl *claim) bool { return cl.ID == id }) ||
		slices.ContainsFunc(s.departures, func(d *departure) bool { return d.claim.ID == id })
}
