package driverkit

import (
	"context"
	"time"

	"github.com/pawl-go/pawl/driver"
)

const (
	// downPause is how long a waiter waits for its subscription to come up before it
	// looks for itself, and how often it looks while the subscription stays down.
	downPause = 100 * time.Millisecond
	// unknownPause is how often a waiter looks whose engine does not know when a claim
	// ahead of it may expire.
	unknownPause = time.Second
)

// A Backend is what [Await] needs from a session.
type Backend interface {
	// Look reads how c stands. Where a claim ahead has expired, and no one else may be
	// there to notice, it first ends that claim. Pause in its answer is the time until
	// the next claim ahead may expire.
	Look(ctx context.Context, c driver.Claim) (driver.Standing, error)

	// Ended is closed when the session was closed or lost: see [Claims.Ended].
	Ended() <-chan struct{}
}

// A Granter is a Backend whose notifications carry the grant itself, so that a turn
// costs no look. It keeps a grant that was delivered and calls [Waiter.Notify].
type Granter interface {
	// TakeGrant returns the standing of a claim whose grant was delivered, once; taken
	// is false where none was. A grant that cannot be trusted is dropped, and
	// [Waiter.Wake] called.
	TakeGrant(ctx context.Context, c driver.Claim) (st driver.Standing, taken bool, err error)
}

// Await waits for c's turn, as [driver.Session] demands of Await, with w as what wakes
// the claim and sub as the subscription that carries the notifications: nil where these
// come from inside the process and cannot be lost.
//
// The engine sees to it, before it calls Await, that a notification for c reaches w. So
// the order is subscribe, look, wait, and a turn that comes between two of these steps
// is a wake during the next. Await looks
//
//   - at first, unless w was Current in sub's present generation since c was entered;
//   - after a Wake;
//   - after sub was down and came up again, which is a new generation: what was sent
//     meanwhile is lost;
//   - every 100 ms while sub is down;
//   - after last.Pause, or the time that beats have reported since.
//
// It returns when a look finds c held, gone or behind another exclusive claim than last
// tells of. A look that finds nothing new is no reason to return.
func Await(ctx context.Context, b Backend, w *Waiter, sub *Subscription, c driver.Claim, last driver.Standing) (driver.Standing, error) {
	granter, _ := b.(Granter)
	wake := w.begin(last)
	timer := time.NewTimer(downPause)
	defer timer.Stop()
	expired := false // sub was down for downPause
	for {
		select {
		case <-b.Ended():
			return driver.Standing{}, driver.ErrGone
		default:
		}
		if granter != nil {
			if st, taken, err := granter.TakeGrant(ctx, c); taken || err != nil {
				return st, err
			}
		}
		generation, changed, err := sub.State()
		if err != nil {
			return driver.Standing{}, err
		}
		due, left := w.due(generation)
		if generation == 0 {
			due, left = due || expired, min(left, downPause)
		}
		if due {
			expired = false
			w.looking(generation) // before the look: a Wake during it is not overwritten
			st, err := b.Look(ctx, c)
			if err != nil || st.Held || st.Gone {
				w.unknown()
				return st, err
			}
			w.looked(st)
			if Blocker(st) != Blocker(last) {
				return st, nil
			}
			continue
		}
		timer.Reset(left)
		select {
		case <-wake:
		case <-changed:
		case <-timer.C:
			expired = generation == 0
		case <-b.Ended():
			return driver.Standing{}, driver.ErrGone
		case <-ctx.Done():
			return driver.Standing{}, ctx.Err()
		}
	}
}
