package memlock

import (
	"slices"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// A line is the claims of one name in order of arrival.
type line struct {
	spots []*spot
}

// A spot is one claim in a line. Its token is minted on arrival: the line is
// first come first served, so the order of arrival is the order of holding.
type spot struct {
	claim   driver.Claim
	session *session
	token   uint64
	granted uint64 // the token as it was minted; Confirm may raise token
	epoch   uint64 // of the node when it was minted
	held    bool
	since   time.Time // of arrival, then of holding
	until   time.Time
	turn    chan struct{} // made by Await, buffered by one; nil while nobody waits on it
}

func (s *spot) wake() {
	if s.turn == nil {
		return
	}
	select {
	case s.turn <- struct{}{}:
	default: // already told
	}
}

// shownToken is the token as others may see it: a claim that waits has none yet.
func (s *spot) shownToken() uint64 {
	if s.held {
		return s.token
	}
	return 0
}

func (s *spot) entry(now time.Time) driver.Entry {
	return driver.Entry{
		Claim:   s.claim,
		Session: s.session.id,
		Held:    s.held,
		Fence:   s.shownToken(),
		Since:   now.Sub(s.since),
		Left:    s.until.Sub(now),
	}
}

func (l *line) find(id string) int {
	return slices.IndexFunc(l.spots, func(s *spot) bool { return s.claim.ID == id })
}

// settleLocked ends the dead, then lets in everybody who now fits and wakes them.
// It forgets a line with nobody in it.
func (e *Engine) settleLocked(name string, l *line, now time.Time) {
	before := len(l.spots)
	l.spots = slices.DeleteFunc(l.spots, func(s *spot) bool {
		dead := !s.until.After(now)
		if dead {
			s.wake()
		}
		return dead
	})
	if len(l.spots) < before {
		e.departedLocked(name)
	}
	for _, s := range l.spots {
		if s.held {
			continue
		}
		if held, _, _ := l.place(s.claim.ID); !held {
			break // nobody behind it can be let in: it stands ahead of them all
		}
		s.held, s.since = true, now
		s.wake()
	}
	if len(l.spots) == 0 {
		delete(e.lines, name)
	}
}

// endLocked takes one claim out of the line.
func (e *Engine) endLocked(name string, l *line, i int, now time.Time) {
	l.spots[i].wake()
	l.spots = slices.Delete(l.spots, i, i+1)
	e.departedLocked(name)
	e.settleLocked(name, l, now)
}

func (e *Engine) departedLocked(name string) {
	for _, told := range e.watchers[name] {
		select {
		case told <- struct{}{}:
		default: // told already
		}
	}
}

// place asks driver.Place about a claim of this line.
func (l *line) place(id string) (held bool, ahead int, blocker string) {
	if len(l.spots) == 1 && l.spots[0].claim.ID == id {
		return true, 0, "" // the common case without building a line
	}
	entries := make([]driver.Entry, len(l.spots))
	for i, s := range l.spots {
		entries[i].Claim = s.claim
	}
	held, ahead, blocker, _ = driver.Place(entries, id)
	return held, ahead, blocker
}

// standing answers for the claim at i; promised is what this call promises.
func (l *line) standing(i int, now time.Time, promised time.Duration) driver.Standing {
	s := l.spots[i]
	st := driver.Standing{Held: s.held, Ahead: i, Valid: promised}
	if s.held {
		st.Token, st.Epoch = s.token, s.epoch
		return st
	}
	first := l.spots[0].until
	for _, o := range l.spots[1:i] {
		if o.until.Before(first) {
			first = o.until
		}
	}
	st.Pause = first.Sub(now)
	holder := l.spots[0].entry(now)
	st.Holder = &holder
	return st
}
