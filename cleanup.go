package pawl

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/claimset"
)

// maxDepartures is how many departures may be open on a store that does not answer
// before acquires are refused.
const maxDepartures = 256

// maxLeavers is how many goroutines of a session leave departures at a time. Each leaves
// up to maxLeave of them in one call, or, on a store that cannot, maxLeaveEach one after
// the other.
const (
	maxLeavers   = 8
	maxLeave     = 512
	maxLeaveEach = 16
)

// maxLooks is how many lines one of them reads at a time.
const maxLooks = 16

// overloaded returns an error if too many departures are open and the store is
// silent: no call that was sent within the last TTL was answered, not even a beat.
// Departures alone refuse nothing, however many they are: a store that answers
// completes them in time.
func (s *session) overloaded() error {
	silent := s.silent()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.departures.all) < maxDepartures || silent <= s.ttl {
		return nil
	}
	return fmt.Errorf("%w; %d earlier calls are not settled yet", noAnswer(silent), len(s.departures.all))
}

// depart has the keeper leave cl.
func (s *session) depart(cl *claim, after instant) {
	d := &departure{claim: cl.Claim.Claim, after: after, since: s.c.now()}
	if cl.unanswered != 0 {
		d.arrives = cl.unanswered.Add(s.ttl)
	}
	s.addDeparture(cl, d)
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
		s.addDeparture(cl, d)
	}
}

func (s *session) addDeparture(cl *claim, d *departure) {
	s.mu.Lock()
	d.held = cl.Granted() != 0
	s.departures.add(d)
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
	size := maxLeaveEach
	if _, ok := s.d.(driver.Leaver); ok {
		size = maxLeave
	}
	for s.leavers < maxLeavers { // else one that ends wakes the keeper
		due := s.dueLocked(now, size)
		if len(due) == 0 {
			return
		}
		s.leavers++
		s.calls.Go(func() { s.leaveAll(due) }) // finish waits for it
	}
}

// dueLocked takes up to most departures that are due, without those that need not be
// tried any more.
func (s *session) dueLocked(now instant, most int) (due []*departure) {
	for len(due) < most {
		some := s.departures.take(now, most-len(due))
		if len(some) == 0 {
			break
		}
		for _, d := range some {
			if d.overdue(now, s.ttl) {
				if !s.c.features.BySession {
					s.departures.drop(d)
					continue
				}
				s.set.Retire() // what cannot be left ends with the session alone; until then it is repeated
			}
			due = append(due, d)
		}
	}
	return due
}

// leaveAll leaves departures, and takes in the answers.
func (s *session) leaveAll(due []*departure) {
	claims := make([]driver.Claim, len(due))
	for i, d := range due {
		claims[i] = d.claim
	}
	sent := s.c.now()
	errs := s.leaveEach(claims)
	s.leaveStrays(due, errs, sent)
	s.left(due, errs, sent)
	s.wakeKeeper()
}

// errPutOff is for a claim that was not left because an earlier one had no answer.
var errPutOff = errors.New("not tried: the store did not answer")

// leaveEach leaves claims: all at once where the store can, else one after the other, up
// to the first that has no answer.
func (s *session) leaveEach(claims []driver.Claim) []error {
	errs := make([]error, len(claims))
	if l, ok := s.d.(driver.Leaver); ok {
		ctx, cancel := context.WithTimeout(s.ctx, s.ttl/6)
		defer cancel()
		l.LeaveAll(ctx, claims, errs)
		return errs
	}
	for i, c := range claims {
		if i > 0 && !answered(errs[i-1]) && !refused(errs[i-1]) {
			errs[i] = errPutOff
			continue
		}
		ctx, cancel := context.WithTimeout(s.ctx, s.ttl/6)
		errs[i] = s.d.Leave(ctx, c)
		cancel()
	}
	return errs
}

// answered reports whether a Leave was carried out, or found nothing to do.
func answered(err error) bool { return err == nil || errors.Is(err, driver.ErrGone) }

// left takes in the answers to Leaves that were sent at the given time.
func (s *session) left(due []*departure, errs []error, sent instant) {
	now := s.c.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leavers--
	for i, d := range due {
		switch {
		case answered(errs[i]) && d.final(sent):
			s.departures.drop(d)
			continue
		case errors.Is(errs[i], errPutOff):
			d.again = now.Add(s.retryDelay(0))
		default:
			d.again = now.Add(s.retryDelay(d.tries))
			d.tries++
		}
		s.departures.add(d)
	}
}

// retryDelay is how long after a Leave the next one is sent: soon at first, since an
// Enter that was overtaken by the Leave mostly comes right behind it.
func (s *session) retryDelay(tries int) time.Duration {
	return min(s.ttl/30<<min(tries, 4), s.ttl/3)
}

// leaveStrays compares what the store has of this session under the names of claims
// whose unanswered Enter can no longer arrive with the claims of this process, and leaves
// the others. Where that fails, its error replaces that of their Leaves.
func (s *session) leaveStrays(due []*departure, errs []error, sent instant) {
	byName := map[string][]int{}
	for i, d := range due {
		if d.arrives != 0 && d.final(sent) && answered(errs[i]) {
			byName[d.claim.Name] = append(byName[d.claim.Name], i)
		}
	}
	if len(byName) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(s.ctx, s.ttl/6)
	defer cancel()
	strays, failed := s.strays(ctx, slices.Collect(maps.Keys(byName)))
	for i, err := range s.leaveEach(strays) {
		if !answered(err) {
			failed[strays[i].Name] = err
		}
	}
	for name, err := range failed {
		for _, i := range byName[name] {
			errs[i] = err
		}
	}
}

// strays returns the claims of this session that the store has under these names and
// this process does not know, and for the names that it could not read, why.
func (s *session) strays(ctx context.Context, names []string) (strays []driver.Claim, failed map[string]error) {
	var mu sync.Mutex // guards what follows
	found, failed := map[string]driver.Claim{}, map[string]error{}
	var all sync.WaitGroup
	free := make(chan struct{}, maxLooks)
	for _, name := range names {
		free <- struct{}{} // each of the others ends with ctx
		all.Go(func() {
			defer func() { <-free }()
			line, err := s.c.engine.Line(ctx, name)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				failed[name] = err
			}
			for _, e := range line {
				if e.Session == s.id {
					found[e.ID] = e.Claim
				}
			}
		})
	}
	all.Wait()
	s.forgetKnown(found)
	return slices.Collect(maps.Values(found)), failed
}

// forgetKnown takes out of found, by their IDs, the claims of this process: also those
// that are entering right now, whose answer may say that they hold.
func (s *session) forgetKnown(found map[string]driver.Claim) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.set.Live() {
		delete(found, c.ID)
	}
	for _, cl := range s.unlocking {
		delete(found, cl.ID)
	}
	for d := range s.departures.all {
		delete(found, d.claim.ID)
	}
}
