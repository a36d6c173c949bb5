package pawl

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// maxBlock bounds how long Unlock and Close wait for a store.
const maxBlock = 5 * time.Second

// A departure is a claim that must not stay in the store: given up, lost, or
// left without an answer. The keeper repeats its Leave until it is answered and
// one TTL has passed since the last Enter that was not: that Enter may still be
// on its way, arrive after a Leave that found nothing, and stand in line for as
// long as the session lives.
type departure struct {
	claim driver.Claim
	after instant // not to be left before this
	watch instant // when the last unanswered Enter can no longer arrive; 0: there was none
	busy  bool    // a Leave is under way
	again instant // when to repeat
	since instant // when it was put on the list
	tries int     // Leaves that did not settle it
}

// maxLeaving is how many departures a store that does not answer may owe us
// before nothing further is asked of it.
const maxLeaving = 256

// maxLeavers is how many Leaves of departures are under way at a time.
const maxLeavers = 8

// overwhelmed reports that the store owes too much and is silent: no call that was
// sent within the last TTL was answered, not even a beat. Departures alone refuse
// nothing, however many they are: on a store that answers they are settled in time.
func (s *session) overwhelmed() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	silent := s.silentLocked()
	if len(s.leaving) < maxLeaving || silent <= s.ttl {
		return nil
	}
	return fmt.Errorf("%w; %d earlier calls are not settled yet", noAnswer(silent), len(s.leaving))
}

// overdue reports whether a departure need not be tried any more. Nobody has
// prolonged the claim since it was put on the list, so it has expired: an Enter
// that lands at the last moment lives for one TTL, and so does a claim whose last
// beat is as late.
func (s *session) overdue(d *departure, now instant) bool {
	return !d.busy && now >= max(d.since, d.watch).add(2*s.ttl)
}

func (d *departure) due() instant {
	if d.busy {
		return never
	}
	return max(d.after, d.again)
}

// depart puts cl on the leaving list. A claim that was never sent leaves nothing.
func (s *session) depart(cl *claim, after instant) {
	d := &departure{claim: cl.Claim, after: after, since: s.c.now()}
	if cl.unanswered != 0 {
		d.watch = cl.unanswered.add(s.ttl)
	}
	s.mu.Lock()
	s.leaving = append(s.leaving, d)
	s.mu.Unlock()
	s.poke()
}

// handBack leaves a held claim without leases behind its caller's back.
func (s *session) handBack(cl *claim) {
	s.mu.Lock()
	mine := cl.state == held
	s.endLocked(cl)
	s.mu.Unlock()
	if mine {
		s.depart(cl, s.c.now())
	}
}

// settled puts a claim that was left with an answer on the list if an earlier
// Enter of it may still arrive.
func (s *session) settled(cl *claim) {
	if cl.unanswered == 0 {
		return
	}
	now := s.c.now()
	d := &departure{claim: cl.Claim, since: now, watch: cl.unanswered.add(s.ttl), again: now.add(s.patience(0)), tries: 1}
	if now >= d.watch {
		return
	}
	s.mu.Lock()
	s.leaving = append(s.leaving, d)
	s.mu.Unlock()
	s.poke()
}

// leaveDue sends what is due of the leaving list, in the background.
func (s *session) leaveDue(now instant) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dead {
		return // the session's end ends them too
	}
	if !s.c.features.BySession {
		s.leaving = slices.DeleteFunc(s.leaving, func(d *departure) bool { return s.overdue(d, now) })
	} else if slices.ContainsFunc(s.leaving, func(d *departure) bool { return s.overdue(d, now) }) {
		s.spent = true // what cannot be left ends with the session alone; until then it is repeated
	}
	var due []*departure
	for _, d := range s.leaving {
		if now >= d.due() {
			d.busy = true
			due = append(due, d)
		}
	}
	for some := range slices.Chunk(due, 1+len(due)/maxLeavers) {
		s.calls.Go(func() { s.leaveAll(some) }) // finish waits for it
	}
}

// leaveAll leaves one after the other. A store that does not answer one is not
// asked for the others now.
func (s *session) leaveAll(due []*departure) {
	swept := map[string]instant{} // when a name was
	for i, d := range due {
		over := d.watch != 0 && s.c.now() >= d.watch
		ctx, cancel := context.WithTimeout(s.ctx, s.ttl/6)
		err := s.d.Leave(ctx, d.claim)
		if over && (err == nil || errors.Is(err, driver.ErrGone)) && swept[d.claim.Name] < d.watch {
			swept[d.claim.Name] = s.c.now()
			err = s.sweep(ctx, d.claim.Name)
		}
		cancel()
		s.mu.Lock()
		answered := err == nil || errors.Is(err, driver.ErrGone)
		d.busy = false
		switch now := s.c.now(); {
		case answered && (d.watch == 0 || over):
			s.leaving = slices.DeleteFunc(s.leaving, func(o *departure) bool { return o == d })
		default:
			d.again = now.add(s.patience(d.tries))
			d.tries++
		}
		if !answered && !refused(err) {
			// To the end of the list, so that it does not hold up the same ones each time.
			s.leaving = append(slices.DeleteFunc(s.leaving, func(o *departure) bool { return o == d }), d)
			for _, o := range due[i+1:] {
				o.busy, o.again = false, d.again
			}
			s.mu.Unlock()
			break
		}
		s.mu.Unlock()
	}
	s.poke()
}

// patience is how long after a Leave, of so many before, another is sent: soon at
// first, since an Enter that was overtaken by it mostly comes right behind.
func (s *session) patience(tries int) time.Duration { return min(s.ttl/30<<min(tries, 4), s.ttl/3) }

// sweep compares what the store has of this session under a name with what the
// core knows, and ends strangers.
func (s *session) sweep(ctx context.Context, name string) error {
	line, err := s.c.engine.Line(ctx, name)
	if err != nil {
		return err
	}
	for _, e := range line {
		if e.Session != s.id || s.knows(e.ID) {
			continue
		}
		if err := s.d.Leave(ctx, e.Claim); err != nil && !errors.Is(err, driver.ErrGone) {
			return err
		}
	}
	return nil
}

// knows reports whether a claim with id is ours: also one that is entering right
// now, whose answer may say that it holds.
func (s *session) knows(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, cl := range s.live {
		if cl.ID == id {
			return true
		}
	}
	for _, cl := range s.left {
		if cl.ID == id {
			return true
		}
	}
	for _, d := range s.leaving {
		if d.claim.ID == id {
			return true
		}
	}
	return false
}

// leftBy forgets cl, which Unlock has left or put on the leaving list.
func (s *session) leftBy(cl *claim) {
	s.mu.Lock()
	s.left = slices.DeleteFunc(s.left, func(o *claim) bool { return o == cl })
	awaited := s.fixed || s.spent || s.dead // the session ends with it; otherwise the keeper need not hurry
	s.mu.Unlock()
	if awaited {
		s.poke()
	}
}

// errGivenOrLost is the answer to a Leave whose first copy got none, and of which
// the store knows nothing any more. That copy may have given the lock back; or the
// claim was evicted before it came, or lost with the store's data, and somebody
// else may have held the lock while its holder still worked.
var errGivenOrLost = fmt.Errorf("%w: the store no longer knows it; an earlier call, which got no answer, may have given it back", ErrUnknown)

// leave gives cl back while its caller waits, by the deadline at the latest.
// ErrGone from the first Leave says that the claim was not ours any more; after one
// that was not answered it says nothing.
func (s *session) leave(cl *claim) error {
	now, at := s.c.both()
	bound := min(cl.deadline().sub(now), maxBlock)
	ctx := newCall(context.Background(), at.Add(bound)) // finish waits as long: nothing else need end it
	defer ctx.end()
	if cl.unanswered != 0 && now < cl.unanswered.add(s.ttl) && s.replaced(ctx, cl) {
		s.depart(cl, s.c.now())
		return errBroken
	}
	pause := time.Millisecond
	for asked := false; ; asked = true {
		err := s.d.Leave(ctx, cl.Claim)
		switch {
		case err == nil:
			s.settled(cl)
			return nil
		case errors.Is(err, driver.ErrGone):
			s.settled(cl)
			if asked {
				return errGivenOrLost
			}
			return errBroken
		}
		if refused(err) {
			s.depart(cl, s.c.now())
			return err
		}
		select {
		case <-time.After(pause):
			pause *= 2
		case <-ctx.Done():
			s.depart(cl, s.c.now())
			if errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, driver.ErrUnreachable) {
				err = worded{err, fmt.Sprintf("no answer for %v", bound.Round(time.Millisecond))}
			}
			return fmt.Errorf("%w: %w", ErrUnknown, err)
		}
	}
}

// replaced reports that what the store has under cl's ID is not the hold: an Enter that
// got no answer has landed after the hold was evicted. A Leave would not tell.
func (s *session) replaced(ctx context.Context, cl *claim) bool {
	call, cancel := context.WithTimeout(ctx, s.ttl/6)
	defer cancel()
	var out [1]driver.Standing
	_ = s.d.Beat(call, []driver.Claim{cl.Claim}, out[:])
	st := out[0]
	return st.Gone || st.Valid > 0 && (!st.Held || st.Token != cl.fence)
}
