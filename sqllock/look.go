package sqllock

import (
	"time"

	"github.com/pawl-go/pawl/driver"
)

// A look is the answer of the standing statement: one claim and what is in its
// way. All times are microseconds of the store's clock.
type look struct {
	name string // the user's, set before the scan

	known, held, clash bool
	vetoed             bool // the flight it was read in was undone

	now, until, expiry int64
	try, ahead         int
	token              int64

	first spot // the first in line
}

// A spot is one claim as a row shows it.
type spot struct {
	id, session, note string
	try, need, limit  int64
	token             int64
	held, queue       int64
	since, until      int64
}

func (l *look) scan(r Row) error {
	var known, try, held, ahead, clash int64
	f := &l.first
	err := r.Scan(&known, &l.now, &try, &held, &l.token, &l.until, &ahead, &l.expiry, &clash,
		&f.id, &f.try, &f.token, &f.session, &f.need, &f.limit, &f.queue, &f.note, &f.held, &f.since, &f.until)
	l.known, l.held, l.clash = known != 0, held != 0, clash != 0
	l.try, l.ahead = int(try), int(ahead)
	return err
}

// unsettled reports that something ahead has expired, or that nobody is held at
// the head of the line: a process died between giving back and letting in.
func (l *look) unsettled() bool {
	if !l.known || l.held {
		return false
	}
	return l.first.held == 0 || (l.ahead > 0 && l.expiry <= l.now)
}

// guardedPause is how soon to look again at a line whose first is not let in:
// the transaction that guards what it waits for ends without a word.
const guardedPause = 20 * time.Millisecond

// pause is the time until something ahead expires.
func (l *look) pause() time.Duration {
	if l.ahead == 0 || l.expiry <= l.now {
		return guardedPause
	}
	return max(micros(l.expiry-l.now), time.Millisecond)
}

func (l *look) standing() driver.Standing {
	st := driver.Standing{Held: l.held, Ahead: l.ahead}
	if l.held {
		st.Token = uint64(l.token)
		return st
	}
	st.Pause = l.pause()
	st.Holder = l.holder()
	return st
}

// holder is the first in line.
func (l *look) holder() *driver.Entry {
	if l.first.id == "" {
		return nil
	}
	x := l.first.entry(l.name, l.now)
	return &x
}

func (s *spot) entry(name string, now int64) driver.Entry {
	x := driver.Entry{
		Claim: driver.Claim{
			ID: s.id, Try: int(s.try), Name: name, Need: int(s.need), Limit: int(s.limit), Queue: s.queue != 0, Note: s.note,
		},
		Session: s.session,
		Held:    s.held != 0,
		Since:   micros(max(0, now-s.since)),
		Left:    micros(s.until - now),
	}
	if x.Held { // one that waits has no token to show yet
		x.Fence = uint64(s.token)
	}
	return x
}

func micros(n int64) time.Duration { return time.Duration(n) * time.Microsecond }
