package drivertest

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/pawl-go/pawl/driver"
)

// leaverCases leave many claims at once, on engines whose sessions are a driver.Leaver.
var leaverCases = []lawCase{
	{name: "LeaveAll answers as Leave would", law: 1, needs: needs{queue: true}, run: leaveAllAnswers,
		why: "A storm of acquires was given up: of those claims one is held, some wait, one was never there, one was left before, one has entered again since."},
	{name: "LeaveAll wakes the next and nobody else", law: 7, needs: needs{queue: true}, run: leaveAllWakes,
		why: "The holder and three behind it leave in one call: the first one behind those holds, and hears of it; the others wait on."},
	{name: "LeaveAll leaves readers and permits", law: 7, needs: needs{queue: true, shared: true}, run: leaveAllReaders,
		why: "Three readers leave in one call while a writer waits for them: its turn comes once, after the last."},
	{name: "LeaveAll of a session that has ended ends nothing", law: 14, run: leaveAllEnded,
		why: "The call is made beside Close: another session's claim of the name stays."},
}

// leaver returns the driver.Leaver of a session, and whether it is one.
func (s *session) leaver() (driver.Leaver, bool) {
	l, ok := s.Session.(driver.Leaver)
	if !ok {
		s.f.Log("the session is no driver.Leaver")
	}
	return l, ok
}

// leaveAll leaves cs in one call and expects these errors.
func (s *session) leaveAll(l driver.Leaver, cs []driver.Claim, want ...error) {
	s.f.Helper()
	out := make([]error, len(cs))
	l.LeaveAll(s.f.ctx, cs, out)
	for i, err := range out {
		if !errors.Is(err, want[i]) || err != nil && want[i] == nil {
			s.f.Fatalf("LeaveAll: claim %d: %v, want %v", i, err, want[i])
		}
	}
}

func leaveAllAnswers(f *fixture) {
	a, b := f.open(), f.open()
	l, ok := a.leaver()
	if !ok {
		return
	}
	held, first, second, left, again := f.claim(), f.claim(), f.claim(), f.claim(), f.claim()
	elsewhere, behind := withName(f.claim(), f.name+"/other"), f.claim()
	a.mustHold(held)
	for _, c := range []driver.Claim{first, second, left, again} {
		a.mustWait(c)
	}
	a.mustHold(elsewhere)
	b.mustWait(behind)
	a.mustLeave(left)
	a.mustWait(nextTry(again))
	a.leaveAll(l, []driver.Claim{first, f.claim(), held, left, elsewhere, again, second},
		nil, driver.ErrGone, nil, driver.ErrGone, nil, driver.ErrGone, nil)
	f.expectLine("LeaveAll left four of them", behind, nextTry(again))
	b.mustHold(withoutQueue(withName(f.claim(), elsewhere.Name)))
}

func leaveAllWakes(f *fixture) {
	const others = 4
	a, b := f.open(), f.open()
	l, ok := a.leaver()
	if !ok {
		return
	}
	leaving := []driver.Claim{f.claim(), f.claim(), f.claim(), f.claim()}
	a.mustHold(leaving[0])
	for _, c := range leaving[1:] {
		a.mustWait(c)
	}
	var early [others]atomic.Int32
	var waiting []driver.Claim
	var calls []*backgroundCall
	for i := range others {
		c := f.claim()
		last := b.mustWait(c)
		waiting = append(waiting, c)
		calls = append(calls, awaitInBackground(b, c, last, &early[i]))
	}
	a.leaveAll(l, leaving, nil, nil, nil, nil)
	for i, call := range calls {
		call.wait(fmt.Sprintf("Await of waiter %d", i))
		for j := i + 1; j < others; j++ {
			if n := early[j].Load(); n > int32(i+2) { // notices may say more than the turn; they must not be one for each that left
				f.Errorf("waiter %d was woken %d times before its turn", j, n)
			}
		}
		b.mustLeave(waiting[i])
	}
}

func leaveAllReaders(f *fixture) {
	a, b := f.open(), f.open()
	l, ok := a.leaver()
	if !ok {
		return
	}
	readers := []driver.Claim{f.reader(), f.reader(), f.reader()}
	for _, c := range readers {
		a.mustHold(c)
	}
	writer := f.writer()
	last := b.mustWait(writer)
	a.leaveAll(l, readers[:2], nil, nil)
	f.expectLine("two of three readers left", readers[2], writer)
	a.leaveAll(l, readers, driver.ErrGone, driver.ErrGone, nil)
	b.mustGetTurn(writer, last)
}

func leaveAllEnded(f *fixture) {
	a, b := f.open(), f.open()
	l, ok := a.leaver()
	if !ok {
		return
	}
	c := f.claim()
	a.mustHold(c)
	a.close()
	other := f.claim()
	b.mustHold(other)
	out := make([]error, 1)
	l.LeaveAll(context.WithoutCancel(f.ctx), []driver.Claim{c}, out)
	if out[0] == nil {
		f.Error("LeaveAll of a claim whose session was closed says that it left it")
	}
	f.expectLine("LeaveAll of an ended session", other)
}
