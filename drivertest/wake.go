package drivertest

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// wakeCases check which waiters are woken, and when.
var wakeCases = []lawCase{
	{name: "a handoff does not wait for Pause", law: 6, needs: needs{queue: true, push: true}, run: handoffWithoutPause,
		why: "The engine says that it pushes, so a waiter must not discover its turn by polling: the time from Leave to Await's return is a small part of Pause."},
	{name: "a handoff needs no more than Pause", law: 6, needs: needs{queue: true}, run: handoffWithinPause,
		why: "Whatever happens to notices, Await comes back after Pause and sees its turn."},
	{name: "Leave wakes the next and nobody else", law: 7, needs: needs{queue: true}, run: wakesTheNext,
		why: "Eight wait. A Leave that wakes them all costs a round trip each, 28 in all, and grows with the square."},
	{name: "Leave wakes all readers up to the next writer", law: 7, needs: needs{queue: true, shared: true}, run: wakesReaders,
		why: "A writer leaves; three readers, a writer and another reader wait: three come in, two wait on."},
	{name: "the expiry of a holder wakes the next", law: 6, needs: needs{queue: true}, run: expiryWakes,
		why: "A crash sends no notice, so Await itself must check when the holder expires."},
}

// handoffs measures five handoffs between two sessions. It returns the median and
// the shortest Pause that the engine asked for.
func handoffs(f *fixture) (median, pause time.Duration) {
	a, b := f.open(), f.open()
	ca := f.claim()
	a.mustHold(ca)
	var took []time.Duration
	pause = longTTL
	for range 5 {
		cb := f.claim()
		last := b.mustWait(cb)
		if last.Pause > 0 {
			pause = min(pause, last.Pause)
		}
		got := make(chan time.Time, 1)
		call := f.inBackground(func() error {
			_, err := b.awaitHeld(f.ctx, cb, last)
			got <- time.Now()
			return err
		})
		time.Sleep(20 * time.Millisecond) // so that Await is probably blocked; if it is not, the handoff is merely easier
		left := time.Now()
		a.mustLeave(ca)
		call.wait("Await")
		took = append(took, (<-got).Sub(left))
		a, b, ca = b, a, cb
	}
	slices.Sort(took)
	return took[len(took)/2], pause
}

// handoffWithoutPause cannot distinguish push from polling if Pause is about as
// short as a round trip on a busy machine.
func handoffWithoutPause(f *fixture) {
	took, pause := handoffs(f)
	if pause < 200*time.Millisecond {
		f.Logf("Pause is %v: too short to distinguish push from polling", pause)
		return
	}
	if bound := min(pause/2, soon); took > bound {
		f.Errorf("a handoff took %v with a Pause of %v: the waiter was not notified, it polled", took, pause)
	}
}

func handoffWithinPause(f *fixture) {
	took, pause := handoffs(f)
	if took > pause+soon {
		f.Errorf("a handoff took %v with a Pause of %v", took, pause)
	}
}

// awaitInBackground awaits one claim. It counts in early how often Await returned
// without a grant before Pause was over.
func awaitInBackground(s *session, c driver.Claim, last driver.Standing, early *atomic.Int32) *backgroundCall {
	return s.f.inBackground(func() error {
		for !last.Held {
			start := time.Now()
			st, err := s.Await(s.f.ctx, c, last)
			if err != nil {
				return err
			}
			if !st.Held && (last.Pause == 0 || time.Since(start) < last.Pause*9/10) {
				early.Add(1)
			}
			last = st
		}
		return nil
	})
}

// wakesFew tolerates two early returns, because the contract allows them, and makes
// three attempts, because a waiter on a slow machine may not be subscribed yet when
// the first Leave comes, and then has to poll.
func wakesFew(f *fixture, try func(early *atomic.Int32)) {
	const allowed, tries = 2, 3
	for n := 1; ; n++ {
		var early atomic.Int32
		try(&early)
		v := early.Load()
		if v <= allowed || !f.can.Push { // without push, Leave wakes nobody
			return
		}
		if n == tries {
			f.Errorf("Await returned %d times without a grant, and too often in the %d attempts before", v, n-1)
			return
		}
	}
}

// wakesTheNext fails an engine that wakes all waiters: eight of them make 28 early
// returns.
func wakesTheNext(f *fixture) {
	wakesFew(f, func(early *atomic.Int32) { eightInTurn(f, early) })
}

func eightInTurn(f *fixture, early *atomic.Int32) {
	const n = 8
	a := f.open()
	ca := f.claim()
	a.mustHold(ca)
	var (
		sessions [n]*session
		cs       [n]driver.Claim
		calls    [n]*backgroundCall
	)
	for i := range n {
		sessions[i], cs[i] = f.open(), f.claim()
		calls[i] = awaitInBackground(sessions[i], cs[i], sessions[i].mustWait(cs[i]), early)
	}
	time.Sleep(20 * time.Millisecond) // so that they are probably blocked
	a.mustLeave(ca)
	for i := range n {
		calls[i].wait("Await")
		if i+1 < n {
			expectWaiting(f, calls[i+1])
		}
		sessions[i].mustLeave(cs[i])
	}
}

// expectWaiting fails the case if a waiter holds before the claims ahead of it have
// left.
func expectWaiting(f *fixture, call *backgroundCall) {
	f.Helper()
	select {
	case <-call.done:
		f.Fatalf("a waiter's Await ended (%v) before the holder left", call.err)
	default:
	}
}

func wakesReaders(f *fixture) {
	wakesFew(f, func(early *atomic.Int32) { readersBeforeAWriter(f, early) })
}

func readersBeforeAWriter(f *fixture, early *atomic.Int32) {
	w := f.open()
	cw := f.writer()
	w.mustHold(cw)
	cs := []driver.Claim{f.reader(), f.reader(), f.reader(), f.writer(), f.reader()}
	var (
		sessions []*session
		calls    []*backgroundCall
	)
	for i, c := range cs {
		sessions = append(sessions, f.open())
		calls = append(calls, awaitInBackground(sessions[i], c, sessions[i].mustWait(c), early))
	}
	time.Sleep(20 * time.Millisecond) // so that they are probably blocked
	w.mustLeave(cw)
	f.promptly("waking three readers", func() {
		for _, call := range calls[:3] {
			call.wait("a reader's Await")
		}
	})
	expectWaiting(f, calls[3])
	expectWaiting(f, calls[4])
	for i := range 3 {
		sessions[i].mustLeave(cs[i])
	}
	calls[3].wait("the writer's Await")
	expectWaiting(f, calls[4])
	sessions[3].mustLeave(cs[3])
	calls[4].wait("the last reader's Await")
	sessions[4].mustLeave(cs[4])
}

func expiryWakes(f *fixture) {
	withLongerTTLs(f, func(ttl time.Duration) bool {
		a, b := f.openTTL(ttl), f.open()
		ca, cb := f.claim(), f.claim()
		ca.Name += "/" + newID()
		cb.Name = ca.Name
		sent := time.Now()
		a.mustHold(ca)
		answered := time.Now()
		last := b.mustEnter(cb)
		if last.Held && time.Since(sent) >= a.TTL() { // the holder expired before the waiter entered
			b.close()
			a.close()
			return false
		}
		if last.Held {
			f.Fatalf("Enter beside a holder: %+v", last)
		}
		a.crash()
		if _, err := b.awaitHeld(f.ctx, cb, last); err != nil {
			f.Fatalf("Await: %v", err)
		}
		if late := time.Since(answered); late > 3*a.TTL()+soon {
			f.Errorf("the waiter holds %v after a holder with a TTL of %v was last heard of", late, a.TTL())
		}
		return true
	})
}
