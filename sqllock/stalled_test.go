package sqllock_test

import (
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/sqllock"
)

// A name may be released without being granted to the next claim: the releasing process
// died in between, or a guard prevented it. No notice is sent then, and a waiter whose
// claim is beaten looks all the same, long before the released hold would have expired.
func TestBeatenWaitersNoticeALineWithoutAHolder(t *testing.T) {
	r := pushed(t)
	const ttl = 5 * time.Second
	permit := func(name string) driver.Claim {
		c := mutex(name)
		c.Limit = 2
		return c
	}
	for what, kind := range map[string]struct {
		claim func(name string) driver.Claim
		ended func(t *testing.T, s driver.Session, c driver.Claim, token uint64) // ends a hold
	}{
		"the releasing process died": {mutex, func(t *testing.T, _ driver.Session, c driver.Claim, _ uint64) {
			r.exec(t, `UPDATE pawl_head SET x_id = '', x_session = '', x_live = '', x_note = '', x_until = 0,
				departed = departed + 1 WHERE x_id = ?`, c.ID)
		}},
		"a guard of a mutex":  {mutex, r.leaveGuarded},
		"a guard of a permit": {permit, r.leaveGuarded},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			name := nameOf(t)
			holder, waiter := openSession(t, r.engine(t), 2*time.Minute), openSession(t, r.engine(t), ttl)
			h, w := kind.claim(name), kind.claim(name)
			if !h.Exclusive() { // the other of two
				hold(t, holder, kind.claim(name))
			}
			token := hold(t, holder, h).Token
			got := awaitHeld(t, waiter, w, enter(t, waiter, w))
			for began := time.Now(); time.Since(began) < ttl; time.Sleep(ttl / 8) { // until it listens, and looks no more
				beatAll(t, waiter, w)
			}
			kind.ended(t, holder, h, token)
			beatUntil(t, got, waiter, w)
		})
	}
}

// leaveGuarded gives back a hold while a guard of it is open, which then ends.
func (r *rig) leaveGuarded(t *testing.T, s driver.Session, c driver.Claim, token uint64) {
	t.Helper()
	tx, err := r.db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	if err := sqllock.Guard(t.Context(), tx, &zombie{c, token}); err != nil {
		t.Fatal(err)
	}
	if err := s.Leave(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
}
