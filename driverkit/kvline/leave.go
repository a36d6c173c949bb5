package kvline

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driverkit"
)

func (s *session) Leave(ctx context.Context, c driver.Claim) error {
	if err := s.claims.Begin(ctx); err != nil {
		return err
	}
	return s.leave(ctx, c)
}

func (s *session) leave(ctx context.Context, c driver.Claim) error {
	var out [1]error
	s.leaveName(ctx, []driver.Claim{c}, out[:], s.fresh(c))
	return out[0]
}

// LeaveAll leaves the line of each name with one write.
func (s *session) LeaveAll(ctx context.Context, cs []driver.Claim, out []error) {
	if err := s.claims.Begin(ctx); err != nil {
		for i := range out {
			out[i] = err
		}
		return
	}
	byName := byName(cs)
	each(len(byName), func(n int) {
		which := byName[n]
		some, errs := make([]driver.Claim, len(which)), make([]error, len(which))
		fresh := true
		for n, i := range which {
			some[n] = cs[i]
			fresh = fresh && s.fresh(cs[i])
		}
		s.leaveName(ctx, some, errs, fresh)
		for n, i := range which {
			out[i] = errs[n]
		}
	})
}

// byName returns the indices of the claims of each name, in the order in which the names
// come first.
func byName(cs []driver.Claim) (all [][]int) {
	at := map[string]int{}
	for i, c := range cs {
		n, ok := at[c.Name]
		if !ok {
			n = len(all)
			at[c.Name], all = n, append(all, nil)
		}
		all[n] = append(all[n], i)
	}
	return all
}

// leaveName leaves claims of one name with one write, of its own or of an engine that it asks.
func (s *session) leaveName(ctx context.Context, cs []driver.Claim, out []error, trust bool) {
	name, to := cs[0].Name, ""
	write := func(trust bool, change func(l *line, now time.Time) error) (line, time.Time, error) {
		defer s.e.asks.leave(name)()
		return s.e.update(ctx, name, mode{trust: trust, admits: true}, change)
	}
	leave := func(l *line, _ time.Time) error { return s.remove(l, cs, out) }
	l, now, err := write(trust, func(l *line, now time.Time) error {
		if to = s.toAskToLeave(*l, cs, now); to != "" {
			return errAsk
		}
		return leave(l, now)
	})
	if errors.Is(err, errAsk) {
		if err = nil; !s.askToLeave(ctx, cs, to, s.request(name, l, now)) {
			_, _, err = write(false, leave)
		}
		for n := range out { // it may have been taken out all the same
			if errors.Is(out[n], driver.ErrGone) {
				out[n] = nil
			}
		}
	}
	if err != nil && !errors.Is(err, driver.ErrGone) && !errors.Is(err, s.absent()) {
		for n := range cs {
			out[n] = err
		}
		return
	}
	for _, c := range cs {
		s.withdraw(c)
		s.claims.End(c)
	}
}

// remove takes claims out of a line, and says in out which of them were there.
func (s *session) remove(l *line, cs []driver.Claim, out []error) error {
	var result error = driver.ErrGone // where nothing is left, nothing is written
	for n, c := range cs {
		i, mayBeThere := l.find(c.ID), false
		if latest, ok := s.claims.Current(c.ID); ok {
			mayBeThere = s.state(latest).written
		}
		switch {
		case i < 0 && mayBeThere:
			out[n], result = driver.ErrGone, s.absent()
		case i < 0 || (*l)[i].Try > c.Try:
			out[n] = driver.ErrGone
		default:
			l.remove(i)
			out[n] = nil
		}
	}
	if result == s.absent() || !slices.Contains(out, nil) {
		return result
	}
	return nil
}

// toAskToLeave returns the engine that is asked to take claims that wait out of a long line;
// "" if none is.
func (s *session) toAskToLeave(l line, cs []driver.Claim, now time.Time) string {
	if !l.long() || len(cs) > passMost {
		return ""
	}
	for _, c := range cs {
		waits := false
		s.claims.With(c.ID, c.Try, func(p *driverkit.Claimed[claimState]) {
			waits = !p.State.isHeld() && p.State.left == nil // nobody was asked in vain
		})
		if i := l.find(c.ID); !waits || i < 0 || l[i].Held || l[i].Try != c.Try {
			return ""
		}
	}
	return s.e.nextWriter(l, now)
}

// askToLeave asks another engine to take claims out of their line, and reports whether it has.
func (s *session) askToLeave(ctx context.Context, cs []driver.Claim, to string, n *notice) bool {
	told := make(chan bool, 2*len(cs))
	held := false
	for _, c := range cs {
		s.claims.With(c.ID, c.Try, func(p *driverkit.Claimed[claimState]) {
			p.State.left = told
			held = held || p.State.isHeld()
		})
		n.Leave = append(n.Leave, place{Session: s.id, ID: c.ID, Try: c.Try})
	}
	if held {
		return false
	}
	n.After /= 2
	s.e.send(to, n)
	limit := n.Limit
	if at, ok := ctx.Deadline(); ok {
		limit = min(limit, time.Until(at)*3/4) // so that there is time for a write
	}
	silence := time.NewTimer(limit)
	defer silence.Stop()
	for left := 0; left < len(cs); {
		select {
		case gone := <-told:
			if gone {
				left++
			} else {
				silence.Reset(2 * askTogether) // it is held, and in the way of all
			}
		case <-silence.C:
			return false
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// maxLate bounds for how long a write that was given up is taken to be under way.
const maxLate = time.Minute

// absent is for a claim whose Enter may be under way. The core waits for it as long.
func (s *session) absent() absent { return absent{min(s.ttl, maxLate)} }

// Close leaves the lines of the claims that are left, each with one write, and deletes the
// session's value: what could not be left ends with it.
func (s *session) Close(ctx context.Context) error {
	defer s.e.sessions.Remove(s.id, s) // until then it hears who was taken out
	left := s.claims.Close()
	byName := byName(left)
	errs := make([]error, len(byName)+1)
	each(len(byName), func(n int) {
		some, out := make([]driver.Claim, 0, len(byName[n])), make([]error, len(byName[n]))
		for _, i := range byName[n] {
			some = append(some, left[i])
		}
		s.leaveName(ctx, some, out, false)
		for _, err := range out {
			if !errors.Is(err, driver.ErrGone) {
				errs[n] = err
			}
		}
	})
	errs[len(byName)] = s.end(ctx)
	return driver.Join(errs...)
}
