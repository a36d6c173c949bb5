package sqlline

import (
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/sqllock/internal/sqlstore"
)

// A claimReading is the result of the statement standing: one claim, and what is ahead
// of it. All times are microseconds of the store's clock.
type claimReading struct {
	name string // the user's, set before the scan

	known, held, clash bool
	aborted            bool // the batch it was read in was rolled back

	now, until, expiry int64
	try, ahead         int
	token              int64

	first claimRow // the first in line
}

// A claimRow is one claim as a row shows it.
type claimRow struct {
	id, session, note string
	try, need, limit  int64
	token             int64
	held, queue       int64
	since, until      int64
}

func (r *claimReading) scan(row sqlstore.Row) error {
	var known, try, held, ahead, clash int64
	f := &r.first
	err := row.Scan(&known, &r.now, &try, &held, &r.token, &r.until, &ahead, &r.expiry, &clash,
		&f.id, &f.try, &f.token, &f.session, &f.need, &f.limit, &f.queue, &f.note, &f.held, &f.since, &f.until)
	r.known, r.held, r.clash = known != 0, held != 0, clash != 0
	r.try, r.ahead = int(try), int(ahead)
	return err
}

// location returns where the reading saw c.
func (r *claimReading) location(c driver.Claim) location {
	return location{token: r.token, inHead: r.held && c.Exclusive(), waiting: !r.held}
}

// stalled reports that a claim ahead has expired, or that the first in line does not
// hold: a process died between releasing the name and granting it.
func (r *claimReading) stalled() bool {
	if !r.known || r.held {
		return false
	}
	return r.first.held == 0 || (r.ahead > 0 && r.expiry <= r.now)
}

// guardedPause is how soon to look again at a line whose first claim cannot be granted:
// a guarded transaction ends without a notice.
const guardedPause = 20 * time.Millisecond

// pause returns the time until a claim ahead expires.
func (r *claimReading) pause() time.Duration {
	if r.ahead == 0 || r.expiry <= r.now {
		return guardedPause
	}
	return max(micros(r.expiry-r.now), time.Millisecond)
}

func (r *claimReading) standing() driver.Standing {
	st := driver.Standing{Held: r.held, Ahead: r.ahead}
	if r.held {
		st.Token = uint64(r.token)
		return st
	}
	st.Pause = r.pause()
	st.Holder = r.holder()
	return st
}

// holder returns the first in line.
func (r *claimReading) holder() *driver.Entry {
	if r.first.id == "" {
		return nil
	}
	x := r.first.entry(r.name, r.now)
	return &x
}

func (r *claimRow) entry(name string, now int64) driver.Entry {
	x := driver.Entry{
		Claim: driver.Claim{
			ID: r.id, Try: int(r.try), Name: name, Need: int(r.need), Limit: int(r.limit), Queue: r.queue != 0, Note: r.note,
		},
		Session: r.session,
		Held:    r.held != 0,
		Since:   micros(max(0, now-r.since)),
		Left:    micros(r.until - now),
	}
	if x.Held { // a waiting claim has no token to show yet
		x.Fence = uint64(r.token)
	}
	return x
}
