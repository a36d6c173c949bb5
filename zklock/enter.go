package zklock

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/pawl-go/pawl/driver"
)

// Enter stands in line, or holds: on a name that is free, in one round trip.
func (s *session) Enter(ctx context.Context, c driver.Claim) (driver.Standing, error) {
	all, err := s.enter(ctx, []driver.Claim{c})
	if err != nil {
		return driver.Standing{}, err
	}
	return all[0], nil
}

// EnterAll enters every claim in one Multi; if one that does not queue cannot be
// held, or one is refused, none stays.
func (s *session) EnterAll(ctx context.Context, cs []driver.Claim) ([]driver.Standing, error) {
	if len(cs) == 0 {
		return nil, ctx.Err()
	}
	return s.enter(ctx, cs)
}

// An arrival is one claim on its way into its line.
type arrival struct {
	driver.Claim
	sp      *spot
	lower   []string // paths of its lower tries, to be ended by the same Multi
	version int32    // what the container's must be; -1: whatever it is
	made    int64    // the container that version is of
	came    uint32   // how many had come to it, as comers counts
	known   bool     // it stands in line from an earlier Enter
}

func (s *session) enter(ctx context.Context, cs []driver.Claim) ([]driver.Standing, error) {
	if err := s.giveWay(ctx); err != nil {
		return nil, err
	}
	sent := now()
	if err := s.begin(ctx); err != nil {
		return nil, err
	}
	for {
		as, gone, err := s.arrive(ctx, cs)
		if gone != nil || err != nil {
			return gone, err
		}
		out, again, err := s.attempt(ctx, as)
		if again {
			continue // the line has changed; nothing was done
		}
		if err == nil {
			s.promise(sent, out)
		}
		return out, err
	}
}

// attempt goes through one round: look where looking is needed, join, and see how
// they stand.
func (s *session) attempt(ctx context.Context, as []*arrival) (out []driver.Standing, again bool, err error) {
	fresh := slices.DeleteFunc(slices.Clone(as), func(a *arrival) bool { return a.known })
	if out, err := s.survey(ctx, as, fresh); out != nil || err != nil {
		s.abandon(fresh)
		return out, false, err
	}
	fresh = slices.DeleteFunc(fresh, func(a *arrival) bool { return a.known })
	var stats []*zk.Stat
	if len(fresh) > 0 {
		if stats, again, err = s.join(ctx, fresh); again || err != nil {
			return nil, again, err
		}
	}
	out = make([]driver.Standing, len(as))
	for i, a := range as {
		if j := slices.Index(fresh, a); j >= 0 {
			if s.sure(a, stats[j]) {
				out[i] = s.held(a.sp)
				continue
			}
		}
		if a.known {
			// One that is entered again is told how it stands now, and not as a server
			// knows it that is behind: its caller may know of somebody who has left.
			err = s.catchUp(ctx)
		}
		if err != nil {
			break
		}
		if out[i], err = s.look(ctx, a.sp); err != nil {
			break
		}
		if out[i].Gone { // evicted since an earlier Enter, or just now: it comes anew
			s.forget(a.sp)
			return nil, true, nil
		}
	}
	if errors.Is(err, driver.ErrUnreachable) || err != nil && ctx.Err() != nil {
		return nil, false, err // they keep their places, where the same Enter finds them, or a Leave
	}
	if err != nil || slices.ContainsFunc(as, func(a *arrival) bool { return !a.Queue && !a.sp.isHeld(s) }) {
		return s.undo(ctx, as, out, err)
	}
	return out, false, nil
}

// sure reports whether a claim holds by the answer to its Multi alone.
func (s *session) sure(a *arrival, container *zk.Stat) bool {
	if !a.holds(container) {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	a.sp.held, a.sp.ahead = true, -1
	if container.NumChildren == 1 {
		a.sp.ahead = 0
	}
	return true
}

// holds reports that of a claim which is alone in its line, or before which nobody has
// come since it was seen to have room. The version says that of those who came by a
// Multi, and refuses ours; not all do.
func (a *arrival) holds(container *zk.Stat) bool {
	return container.NumChildren == 1 || a.version >= 0 && container.Czxid == a.made && comers(container) == a.came+2
}

// undo ends what entered where one was refused, or could not be held.
func (s *session) undo(ctx context.Context, as []*arrival, out []driver.Standing, err error) ([]driver.Standing, bool, error) {
	for _, a := range as {
		if lerr := s.leave(ctx, a.sp); lerr != nil && !errors.Is(lerr, driver.ErrGone) {
			return nil, false, fmt.Errorf("%w (taking back a claim that was refused: %w)", lerr, err)
		}
	}
	for i := range out {
		out[i].Held, out[i].Token = false, 0
	}
	return out, false, err
}

// arrive finds or makes the spots of the claims, and waits for an Enter of theirs
// that its caller gave up. It returns standings if one of them is over.
func (s *session) arrive(ctx context.Context, cs []driver.Claim) ([]*arrival, []driver.Standing, error) {
	as := make([]*arrival, len(cs))
	for i, c := range cs {
		for {
			s.mu.Lock()
			sp := s.spots[c.ID]
			if sp == nil {
				sp = &spot{claim: c, unsure: c.Try > 1} // a lower try may be anywhere
				s.spots[c.ID] = sp
			}
			entered := sp.entered
			switch {
			case entered != nil:
			case sp.claim.Try > c.Try:
				s.mu.Unlock()
				out := make([]driver.Standing, len(cs))
				out[i].Gone = true
				return nil, out, nil
			default:
				as[i] = &arrival{Claim: c, sp: sp, version: -1}
				if sp.claim.Try < c.Try {
					s.replaceLocked(as[i])
				}
				as[i].known = sp.node != ""
			}
			s.mu.Unlock()
			if entered == nil {
				break
			}
			select {
			case <-entered:
			case <-ctx.Done():
				return nil, nil, unanswered(ctx)
			}
		}
	}
	return as, nil, nil
}

// replaceLocked makes a spot that of a higher try.
func (s *session) replaceLocked(a *arrival) {
	sp := a.sp
	if sp.node != "" {
		a.lower = append(a.lower, s.e.linePath(sp.claim.Name)+"/"+sp.node)
	}
	*sp = spot{claim: a.Claim, unsure: true}
}

// abandon forgets spots of claims that were not sent.
func (s *session) abandon(as []*arrival) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range as {
		if sp := a.sp; s.spots[a.ID] == sp && sp.node == "" && sp.entered == nil && !sp.unsure {
			delete(s.spots, a.ID)
		}
	}
}

// promise says for how long the claims live. Mostly they live by what the session
// was promised, which the core knows; after an irregular beat it is told.
func (s *session) promise(sent instant, out []driver.Standing) {
	until := s.until()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.assumed.add(s.ttl) <= until {
		return
	}
	for i := range out {
		if !out[i].Gone {
			out[i].Valid = max(1, until.sub(sent))
		}
	}
}
