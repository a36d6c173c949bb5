package pawl

import (
	"context"
	"errors"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/jitter"
)

// An acquisition is one acquire: what it asks for, how it stands, and what went
// wrong last.
type acquisition struct {
	c     *Client
	o     *options
	cl    *claim  // nil once its place went to another
	try   bool    // hold it now or not at all
	began instant // when the store was first asked; 0: not yet
	known bool    // last is the store's answer, to this acquisition or to one that waits for the same
	last  driver.Standing
	at    instant  // when last was learnt; 0: by another acquisition, or just now
	ended *session // the session before this, which has ended; nil: none
	report

	fault     error   // why the store could not be asked; nil once it answered
	atFault   instant // until when the claim was promised at the fault
	fails     int     // calls that failed in a row
	endings   int     // sessions that had ended, in a row
	lateCount int     // grants that came too late to be used
	splits    int     // answers that no one holds the name
}

// maxSplits is how often an acquire asks again at once where no one held the name. A
// waiter is woken by departures.
const maxSplits = 3

// A report is what the observers are told of an acquire.
type report struct {
	caller  context.Context
	start   instant // when it began; 0: there are no observers
	waiting bool    // the wait was counted, and the observers told of it
	id      string  // of the claim in that event
}

// run takes the claim to held or returns why not; then nothing of it is left
// behind, or the keeper is leaving it. It is the one loop in which all waiting
// happens: enter, await until held, enter again where the store lost the place.
func (a *acquisition) run(ctx context.Context) error {
	for {
		if err := a.attach(ctx); err != nil {
			return err
		}
		st, err := a.enter(ctx)
		switch {
		case err != nil:
			if err := a.trouble(ctx, err); err != nil {
				return err
			}
			continue
		case st.Held:
			if a.granted(st) {
				return nil
			}
			if err := a.pause(ctx); err != nil {
				return err
			}
			continue
		case st.Gone:
			if a.cl.unanswered != 0 { // an earlier Enter may still arrive under this ID
				a.cl.s.depart(a.cl, a.c.now())
			}
			a.cl.s.rename(a.cl)
			continue
		case st.Split && !a.waiting && a.splits < maxSplits:
			a.splits++
			if pause(ctx, st.Pause); ctx.Err() != nil {
				return a.stop(ctx)
			}
			a.cl.s.retry(a.cl)
			continue
		case a.try:
			a.abandon()
			return a.held(ErrHeld)
		}
		done, err := a.await(ctx)
		if done || err != nil {
			return err
		}
	}
}

// resume goes on with a claim that another goroutine left in line.
func (a *acquisition) resume(ctx context.Context) error {
	done, err := a.await(ctx)
	if done || err != nil {
		return err
	}
	return a.run(ctx)
}

// attach gives the claim a session, if it has none or its own has ended.
func (a *acquisition) attach(ctx context.Context) error {
	if a.began == 0 {
		a.began = a.c.now()
	}
	for a.cl.s == nil || a.cl.s.ended() {
		if s := a.cl.s; s != nil {
			s.end(a.cl)
			a.ended = s
			a.cl = a.cl.anew() // a claim never moves: its old session's calls may still look at it
		}
		a.cl.identify()
		call := callUntil(ctx, time.Now().Add(a.limit()))
		err := a.c.attach(call, a.cl)
		call.end()
		if err == nil {
			return nil
		}
		if err := a.trouble(ctx, err); err != nil {
			return err
		}
	}
	return nil
}

// limit bounds one call. A grant that comes later than a TTL would be worth nothing.
func (a *acquisition) limit() time.Duration {
	if !a.try {
		return a.o.ttl
	}
	return tryLimit(a.o.ttl)
}

func (a *acquisition) enter(ctx context.Context) (driver.Standing, error) {
	st, err := a.cl.s.enter(ctx, a.cl, a.limit())
	if err == nil {
		a.endings = 0
		a.learn(st)
	}
	return st, err
}

// learn takes in the store's answer. Goroutines that wait for the same inside the
// process wait for the same holder.
func (a *acquisition) learn(st driver.Standing) {
	a.fault, a.fails, a.last = nil, 0, st
	a.known = a.known || !st.Held && !st.Gone
	if !st.Held && !a.try {
		a.at = a.c.now()
		if g := a.cl.gate; g != nil {
			g.learn(st)
		}
	}
}

// await waits in line until the claim is held (done), or must be entered anew.
func (a *acquisition) await(ctx context.Context) (done bool, err error) {
	a.tellWaiting()
	for {
		s := a.cl.s
		st, err := s.await(ctx, a.cl, a.last)
		switch {
		case err != nil && ctx.Err() != nil:
			return false, a.stop(ctx)
		case s.ended():
			return false, nil
		case errors.Is(err, errLook):
			continue
		case errors.Is(err, driver.ErrGone) || err == nil && st.Gone:
			s.retry(a.cl)
			return false, nil
		case err != nil:
			if err := a.trouble(ctx, err); err != nil {
				return false, err
			}
			continue
		}
		a.learn(st)
		switch {
		case st.Held && a.cl.o.fixed && errors.Is(s.confirm(ctx, a.cl, st.Token), ErrLost):
			s.retry(a.cl) // a lease without renewal gets a beat at its grant, for its time to start then
			return false, nil
		case st.Held:
			return a.granted(st), nil
		case !a.c.features.Queue:
			s.retry(a.cl) // no place is kept there: ask again
			return false, nil
		}
	}
}

// tellWaiting counts, and tells the observers, once, that the lock was not free.
func (a *acquisition) tellWaiting() {
	if a.waiting {
		return
	}
	a.waiting = true
	e := Event{Kind: Waiting, Context: a.caller}
	if len(a.o.observers) > 0 { // else there may be no claim yet
		a.cl.identify()
		a.id = a.cl.ID
		e.Took = a.c.now().Sub(a.start)
	}
	a.c.tell(a.cl, a.o, e)
}

// granted takes the grant, or gives it back because it came too late to be used.
func (a *acquisition) granted(st driver.Standing) bool {
	s := a.cl.s
	if s.grant(a.cl, st) {
		return true
	}
	a.lateCount++
	s.depart(a.cl, s.c.now())
	s.rename(a.cl)
	return false
}

// trouble deals with a call that failed: nil says to try again.
func (a *acquisition) trouble(ctx context.Context, err error) error {
	if hasEnded(ctx) {
		return a.stop(ctx)
	}
	s := a.cl.s
	if s != nil && s.ended() {
		return nil // an error of a call on an ended session says nothing
	}
	if errors.Is(err, driver.ErrGone) {
		if s != nil {
			s.die(errDead)
		}
		if a.endings++; a.endings == 1 {
			return nil
		}
	}
	late := errors.Is(err, context.DeadlineExceeded) // the call's own limit: ctx has not ended
	if late && !errors.Is(err, driver.ErrUnreachable) {
		err = noAnswer(a.limit())
	}
	if !errors.Is(err, driver.ErrUnreachable) && !errors.Is(err, driver.ErrGone) {
		a.abandon()
		if errors.Is(err, driver.ErrLimit) {
			err = a.limitError(ctx, err)
		}
		return err
	}
	a.fault, a.atFault = err, a.promised()
	if a.fails++; a.fails > maxRepeats && (a.try || !a.c.contacted.Load()) {
		a.abandon()
		return err
	}
	return a.pause(ctx)
}

// pause waits a little before the next attempt, longer after each failure.
func (a *acquisition) pause(ctx context.Context) error {
	limit := min(time.Second, time.Millisecond<<min(a.fails+a.lateCount, 10))
	pause(ctx, limit/2+jitter.N(limit/2))
	if ctx.Err() != nil {
		return a.stop(ctx)
	}
	return nil
}

// stop ends the acquisition because ctx did. The place in line goes to the next
// goroutine of this process that wants it, or is left.
func (a *acquisition) stop(ctx context.Context) error {
	if a.promised() > a.atFault {
		a.fault = nil // a beat was answered since, while Await had no reason to return
	}
	closed := errors.Is(context.Cause(ctx), ErrClosed)
	if a.cl.gate != nil && !a.try && !closed && a.bequeath() {
		a.cl = nil
	} else {
		a.abandon()
	}
	return a.stopped(ctx)
}

// bequeath gives the place in the engine's line to the next waiter of the gate.
func (a *acquisition) bequeath() bool {
	if !a.cl.Queue && a.cl.s != nil {
		a.cl.s.retry(a.cl) // no place is kept: the heir's Enter is a new one
	}
	return a.cl.gate.bequeath(a.cl, a.last)
}

// abandon leaves the line.
func (a *acquisition) abandon() {
	if s := a.cl.s; s != nil {
		s.abandon(a.cl)
	}
}

// promised returns until when the store has promised the claim; 0: it has not yet.
func (a *acquisition) promised() instant {
	if s := a.cl.s; s != nil {
		return s.claimPromised(a.cl)
	}
	return 0
}
