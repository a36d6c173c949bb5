package pawl

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// errWaited is the cause of a wait that WithWait ended.
var errWaited = errors.New("waited long enough")

// maxRepeats bounds how often a call is repeated when the caller does not want
// to wait, or when the store has never answered: a wrong address must not look
// like a busy lock. One lost reply is forgiven all the same.
const maxRepeats = 2

// maxTry bounds how long a caller that does not want to wait is kept by a store that
// does not answer, where its TTL is longer.
const maxTry = 10 * time.Second

// A quest is one acquire: what it asks, how it stands, and what went wrong last.
type quest struct {
	c     *Client
	o     *options
	cl    *claim  // nil once its place went to another
	try   bool    // hold it now or not at all
	began instant // when the store was first asked; 0: not yet
	known bool    // last is what the store said, to this quest or to one that waits for the same
	last  driver.Standing
	at    instant  // when last was learnt; 0: by another quest, or just now
	fault error    // why the store could not be asked; nil once it answered
	then  instant  // until when the claim was promised at the fault
	fails int      // in a row
	stood *session // the one before this, which has ended; nil: none
	gone  int      // sessions that had ended, in a row
	late  int      // grants that came too late to be used
	told  bool     // the observer was told of the wait
}

// run takes the claim to held or returns why not; then nothing of it is left
// behind, or is being left. It is the one loop in which all waiting happens:
// enter, await until held, enter again where the store lost the place. A claim
// that is already in line goes on from there.
func (q *quest) run(ctx context.Context) error {
	for {
		if err := q.seat(ctx); err != nil {
			return err
		}
		st, err := q.enter(ctx)
		switch {
		case err != nil:
			if err := q.trouble(ctx, err); err != nil {
				return err
			}
			continue
		case st.Held:
			if q.granted(st) {
				return nil
			}
			if err := q.pause(ctx); err != nil {
				return err
			}
			continue
		case st.Gone:
			if q.cl.unanswered != 0 { // an earlier Enter may still land under this ID
				q.cl.s.depart(q.cl, q.c.now())
			}
			q.cl.s.rename(q.cl)
			continue
		case q.try:
			q.abandon()
			return q.held(ErrHeld)
		}
		done, err := q.await(ctx)
		if done || err != nil {
			return err
		}
	}
}

// resume goes on with a claim that another goroutine left in line.
func (q *quest) resume(ctx context.Context) error {
	done, err := q.await(ctx)
	if done || err != nil {
		return err
	}
	return q.run(ctx)
}

// seat gives the claim a session, if it has none or its own has ended.
func (q *quest) seat(ctx context.Context) error {
	if q.began == 0 {
		q.began = q.c.now()
	}
	for q.cl.s == nil || q.cl.s.ended() {
		if s := q.cl.s; s != nil {
			s.part(q.cl)
			q.stood = s
			q.cl = q.cl.anew() // a claim never moves: its old session's calls may still look at it
		}
		q.cl.identify()
		call := newCall(ctx, time.Now().Add(q.limit()))
		s, err := q.c.session(call, q.cl)
		call.end()
		if err == nil {
			q.cl.s = s
			return nil
		}
		if err := q.trouble(ctx, err); err != nil {
			return err
		}
	}
	return nil
}

// limit bounds one call. A grant that comes later than a TTL would be worth nothing.
func (q *quest) limit() time.Duration {
	if !q.try {
		return q.o.ttl
	}
	return tryLimit(q.o.ttl)
}

// tryLimit bounds one call of a caller that does not want to wait: with its repeats it
// takes a TTL or maxTry, but no call has less than a second where the TTL is longer.
func tryLimit(ttl time.Duration) time.Duration {
	return max(min(ttl, maxTry)/(1+maxRepeats), min(ttl, time.Second))
}

func (q *quest) enter(ctx context.Context) (driver.Standing, error) {
	st, err := q.cl.s.enter(ctx, q.cl, q.limit())
	if err == nil {
		q.gone = 0
		q.learn(st)
	}
	return st, err
}

// learn takes in what the store said of the claim. Goroutines that wait for the same
// inside the process wait for the same holder.
func (q *quest) learn(st driver.Standing) {
	q.fault, q.fails, q.last = nil, 0, st
	q.known = q.known || !st.Held && !st.Gone
	if !st.Held && !q.try {
		q.at = q.c.now()
		if g := q.cl.gate; g != nil {
			g.learn(st)
		}
	}
}

// await waits in line until the claim is held (done), or must be entered anew.
func (q *quest) await(ctx context.Context) (done bool, err error) {
	q.waits()
	for {
		st, err := q.cl.s.await(ctx, q.cl, q.last)
		switch {
		case err != nil && ctx.Err() != nil:
			return false, q.stop(ctx)
		case q.cl.s.ended():
			return false, nil
		case errors.Is(err, errLook):
			continue
		case errors.Is(err, driver.ErrGone) || err == nil && st.Gone:
			q.cl.s.retry(q.cl)
			return false, nil
		case err != nil:
			if err := q.trouble(ctx, err); err != nil {
				return false, err
			}
			continue
		}
		q.learn(st)
		if st.Held {
			if q.cl.o.fixed && q.cl.s.renew(ctx, q.cl, st) {
				q.cl.s.retry(q.cl)
				return false, nil
			}
			return q.granted(st), nil
		}
		if !q.c.features.Queue {
			q.cl.s.retry(q.cl) // no place is kept there: ask again
			return false, nil
		}
	}
}

// waits tells the observer, once, that the lock was not to be had at once.
func (q *quest) waits() {
	if !q.told {
		q.told = true
		if q.cl.o.observer == nil {
			return
		}
		q.cl.identify()
		q.cl.observe(Event{Kind: Waiting})
	}
}

// granted takes the grant, or gives it back because it came too late to be used.
func (q *quest) granted(st driver.Standing) bool {
	s := q.cl.s
	if !s.grant(q.cl, st) {
		q.late++
		s.depart(q.cl, s.c.now())
		s.rename(q.cl)
		return false
	}
	return true
}

// trouble deals with a call that failed: nil says to try again.
func (q *quest) trouble(ctx context.Context, err error) error {
	if hasEnded(ctx) {
		return q.stop(ctx)
	}
	if s := q.cl.s; s != nil && s.ended() {
		return nil // whatever a call on an ended session said
	}
	if errors.Is(err, driver.ErrGone) {
		if s := q.cl.s; s != nil {
			s.die(errDead)
		}
		if q.gone++; q.gone == 1 {
			return nil
		}
	}
	late := errors.Is(err, context.DeadlineExceeded) // the call's own limit: ctx has not ended
	if late && !errors.Is(err, driver.ErrUnreachable) {
		err = noAnswer(q.limit())
	}
	if !errors.Is(err, driver.ErrUnreachable) && !errors.Is(err, driver.ErrGone) {
		q.abandon()
		if errors.Is(err, driver.ErrLimit) {
			err = q.otherLimit(ctx, err)
		}
		return err
	}
	q.fault, q.then = err, q.promised()
	if q.fails++; q.fails > maxRepeats && (q.try || !q.c.contacted.Load()) {
		q.abandon()
		return err
	}
	return q.pause(ctx)
}

// hasEnded reports whether ctx has, also where that is about to be known: a connection
// with the same deadline may be the first to notice.
func hasEnded(ctx context.Context) bool {
	if at, ok := ctx.Deadline(); ok && ctx.Err() == nil && !time.Now().Before(at) {
		late := time.NewTimer(time.Second)
		defer late.Stop()
		select {
		case <-ctx.Done():
		case <-late.C: // it keeps no deadline
		}
	}
	return ctx.Err() != nil
}

// pause waits a little before the next attempt, longer after each failure.
func (q *quest) pause(ctx context.Context) error {
	limit := min(time.Second, time.Millisecond<<min(q.fails+q.late, 10))
	pause := time.NewTimer(limit/2 + rand.N(limit/2))
	defer pause.Stop()
	select {
	case <-pause.C:
		return nil
	case <-ctx.Done():
		return q.stop(ctx)
	}
}

// stop ends the quest because ctx did. The place in line goes to the next
// goroutine of this process that wants it, or is left.
func (q *quest) stop(ctx context.Context) error {
	if q.promised() > q.then {
		q.fault = nil // a beat was answered since, while Await had no reason to come back
	}
	closed := errors.Is(context.Cause(ctx), ErrClosed)
	if g := q.cl.gate; g != nil && !q.try && !closed && g.bequeath(q) {
		q.cl = nil
	} else {
		q.abandon()
	}
	return q.stopped(ctx)
}

// abandon leaves the line.
func (q *quest) abandon() {
	cl := q.cl
	s := cl.s
	if s == nil {
		return
	}
	if cl.unanswered != 0 || cl.is(waiting) {
		s.depart(cl, s.c.now())
	}
	s.part(cl)
}

// await makes one call of Await that the keeper can interrupt.
func (s *session) await(ctx context.Context, cl *claim, last driver.Standing) (driver.Standing, error) {
	call, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s.mu.Lock()
	if s.dead { // nobody is left to interrupt it
		s.mu.Unlock()
		return driver.Standing{}, driver.ErrGone
	}
	cl.interrupt = cancel
	c := cl.Claim
	s.mu.Unlock()
	st, err := s.d.Await(call, c, last)
	s.mu.Lock()
	cl.interrupt = nil
	s.mu.Unlock()
	if err != nil && ctx.Err() == nil && errors.Is(context.Cause(call), errLook) {
		err = errLook
	}
	return st, err
}

func (s *session) ended() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dead
}
