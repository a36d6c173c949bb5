package zklock

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driverkit"
	"github.com/pawl-go/pawl/zklock/internal/zkstore"
)

// Enter stands in line, or holds: on a free name in one round trip.
func (s *session) Enter(ctx context.Context, c driver.Claim) (driver.Standing, error) {
	all, err := s.enter(ctx, []driver.Claim{c})
	if err != nil {
		return driver.Standing{}, err
	}
	return all[0], nil
}

// EnterAll enters every claim in one Multi. If a claim that does not queue cannot be held,
// or one is refused, none stays. More than fit into one request are refused: about a
// thousand names.
func (s *session) EnterAll(ctx context.Context, cs []driver.Claim) ([]driver.Standing, error) {
	if len(cs) == 0 {
		return nil, ctx.Err()
	}
	if !s.fit(cs) {
		return nil, tooMany(len(cs))
	}
	return s.enter(ctx, cs)
}

// fit reports whether one request has room for all claims.
func (s *session) fit(cs []driver.Claim) bool {
	const overhead = 160 // of two operations, with the rest of the node's name
	size := 0
	for _, c := range cs {
		size += 2*len(s.e.linePath(c.Name)) + len(encodeData(s.zs.ID, s.id, c)) + overhead
	}
	return size <= zkstore.MaxRequest
}

// An entering claim is on its way into its line.
type entering struct {
	driver.Claim
	state     *claimState
	lower     []string // paths of its lower tries, which the same Multi deletes
	inLine    bool     // it is in line from an earlier Enter
	version   int32    // what the container's version must be; -1: any
	container int64    // the zxid that created the container of that version
	creations uint32   // of that container, see creationsOf
}

func (s *session) enter(ctx context.Context, cs []driver.Claim) ([]driver.Standing, error) {
	if err := s.waitForVerification(ctx); err != nil {
		return nil, err
	}
	sent := driverkit.Now()
	if err := s.begin(ctx); err != nil {
		return nil, err
	}
	for {
		all, gone, err := s.register(ctx, cs)
		if gone != nil || err != nil {
			return gone, err
		}
		out, again, err := s.attempt(ctx, all)
		if again {
			continue // the line has changed and nothing was done
		}
		if err == nil {
			s.setValid(sent, out)
		}
		return out, err
	}
}

// attempt reads the lines where that is needed, inserts the claims that are not in line,
// and finds their standings.
func (s *session) attempt(ctx context.Context, all []*entering) (out []driver.Standing, again bool, err error) {
	isInLine := func(a *entering) bool { return a.inLine }
	fresh := slices.DeleteFunc(slices.Clone(all), isInLine)
	if out, err := s.precheck(ctx, all, fresh); out != nil || err != nil {
		return s.refuse(ctx, all, fresh, out, err)
	}
	fresh = slices.DeleteFunc(fresh, isInLine)
	var containers []*zk.Stat
	if len(fresh) > 0 {
		if containers, again, err = s.insert(ctx, fresh); again || err != nil {
			return nil, again, err
		}
	}
	out = make([]driver.Standing, len(all))
	refused := false
	for i, a := range all {
		if j := slices.Index(fresh, a); j >= 0 && s.isHeldByReply(a, containers[j]) {
			out[i] = s.heldStanding(a.state)
			continue
		}
		if a.inLine {
			// A repeated Enter is answered with the present standing, not with that of a
			// server which is behind: its caller may know of a claim that has left.
			err = s.barrier(ctx)
		}
		if err != nil {
			break
		}
		if out[i], err = s.refresh(ctx, a.state); err != nil {
			break
		}
		if out[i].Gone { // evicted since an earlier Enter, or just now: it enters anew
			s.forget(a.state)
			return nil, true, nil
		}
		refused = refused || !a.Queue && !out[i].Held
	}
	if errors.Is(err, driver.ErrUnreachable) || err != nil && ctx.Err() != nil {
		return nil, false, err // they keep their places, where the same Enter or a Leave finds them
	}
	if err != nil || refused {
		if err := s.rollback(ctx, all, err); err != nil {
			return nil, false, err
		}
		for i := range out {
			out[i].Held, out[i].Token = false, 0
		}
		return out, false, nil
	}
	return out, false, nil
}

// refuse answers as precheck does, once nothing of the claims is in line any more. Where a
// higher try has come, or the outcome is unknown, what is in line stays there.
func (s *session) refuse(ctx context.Context, all, fresh []*entering, out []driver.Standing, err error) ([]driver.Standing, bool, error) {
	s.discardUnsent(fresh)
	refused := err == nil || errors.Is(err, driver.ErrLimit)
	if refused && !slices.ContainsFunc(out, func(st driver.Standing) bool { return st.Gone }) {
		inLine := slices.DeleteFunc(slices.Clone(all), func(a *entering) bool { return !a.inLine && len(a.lower) == 0 })
		err = s.rollback(ctx, inLine, err)
	}
	if err != nil {
		return nil, false, err
	}
	return out, false, nil
}

// rollback ends what is in line of claims of which one was refused, with err or without,
// and returns err.
func (s *session) rollback(ctx context.Context, all []*entering, err error) error {
	for _, a := range all {
		lerr := s.leave(ctx, a.state)
		switch {
		case lerr == nil, errors.Is(lerr, driver.ErrGone):
		case err != nil:
			return fmt.Errorf("%w (ending a claim that was refused: %w)", lerr, err)
		default:
			return lerr
		}
	}
	return err
}

// isHeldByReply reports whether a claim holds by the reply to its Multi: it is alone in its
// line, or no claim has come since the line was seen to have room. The container's version,
// on which the Multi depends, shows only claims that entered by a Multi; an older pawl's
// may not have.
func (s *session) isHeldByReply(a *entering, container *zk.Stat) bool {
	alone := container.NumChildren == 1
	if !alone && (a.version < 0 || container.Czxid != a.container || creationsOf(container) != a.creations+2) {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	a.state.held, a.state.ahead = true, -1
	if alone {
		a.state.ahead = 0
	}
	return true
}

// register finds or makes the states of the claims, and waits for an earlier Enter of
// theirs that its caller gave up. It returns standings if a higher try is known.
func (s *session) register(ctx context.Context, cs []driver.Claim) ([]*entering, []driver.Standing, error) {
	all := make([]*entering, len(cs))
	for i, c := range cs {
		for all[i] == nil {
			s.mu.Lock()
			state := s.claims[c.ID]
			if state == nil {
				state = &claimState{claim: c, mayExist: c.Try > 1} // a lower try may be in line
				s.claims[c.ID] = state
			}
			pending, higher := state.entering, state.claim.Try > c.Try
			if pending == nil && !higher {
				all[i] = s.beginEnterLocked(c, state)
			}
			s.mu.Unlock()
			switch {
			case pending != nil:
				select {
				case <-pending:
				case <-ctx.Done():
					return nil, nil, zkstore.ContextError(ctx)
				}
			case higher:
				out := make([]driver.Standing, len(cs))
				out[i].Gone = true
				return nil, out, nil
			}
		}
	}
	return all, nil, nil
}

// beginEnterLocked makes a state that of the claim's try, which replaces a lower one.
func (s *session) beginEnterLocked(c driver.Claim, state *claimState) *entering {
	a := &entering{Claim: c, state: state, version: -1}
	if state.claim.Try < c.Try {
		if state.node != "" {
			a.lower = append(a.lower, s.e.linePath(state.claim.Name)+"/"+state.node)
		}
		*state = claimState{claim: c, mayExist: true}
	}
	a.inLine = state.node != ""
	return a
}

// setValid says for how long the claims live. Usually they live by what the session was
// promised, which the core knows; after a late beat they live shorter.
func (s *session) setValid(sent driverkit.Instant, out []driver.Standing) {
	until := s.zs.ValidUntil()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.assumedFrom.Add(s.ttl) <= until {
		return
	}
	for i := range out {
		if !out[i].Gone {
			out[i].Valid = max(1, until.Sub(sent))
		}
	}
}
