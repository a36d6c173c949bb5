package drivertest

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// wakeCases are about who is told of a turn, and when.
var wakeCases = []lawCase{
	{name: "a handoff does not wait for Pause", law: 6, needs: needs{queue: true, push: true}, run: handoffWithoutPause,
		why: "The engine says that it pushes, so a waiter must not find its turn by looking: the time from Leave to Await's return is a small part of Pause."},
	{name: "a handoff needs no more than Pause", law: 6, needs: needs{queue: true}, run: handoffWithinPause,
		why: "Whatever happens to notices, Await comes back after Pause and sees its turn."},
	{name: "Leave wakes the next and nobody else", law: 7, needs: needs{queue: true}, run: wakesTheNext,
		why: "Eight wait. A Leave that wakes them all costs a round trip each, 28 in all, and grows with the square."},
	{name: "Leave wakes all readers up to the next writer", law: 7, needs: needs{queue: true, shared: true}, run: wakesReaders,
		why: "A writer leaves; three readers, a writer and another reader wait: three come in, two wait on."},
	{name: "the expiry of a holder wakes the next", law: 6, needs: needs{queue: true}, run: expiryWakes,
		why: "Nobody tells of a death, so Await itself must look when the holder's time is over."},
}

// handoffs times five handoffs between two claims and returns the median, with
// the shortest Pause that the engine asked for.
func handoffs(s *stage) (median, pause time.Duration) {
	a, b := s.join(), s.join()
	ca := s.claim()
	a.hold(ca)
	var took []time.Duration
	pause = longTTL
	for range 5 {
		cb := s.claim()
		last := b.stand(cb)
		if last.Pause > 0 {
			pause = min(pause, last.Pause)
		}
		got := make(chan time.Time, 1)
		k := s.start(func() error {
			_, err := b.until(s.ctx, cb, last)
			got <- time.Now()
			return err
		})
		time.Sleep(20 * time.Millisecond) // so that Await most likely waits; if not, the handoff is only easier
		left := time.Now()
		a.leave(ca)
		k.wait("Await")
		took = append(took, (<-got).Sub(left))
		a, b, ca = b, a, cb
	}
	slices.Sort(took)
	return took[len(took)/2], pause
}

// handoffWithoutPause cannot tell a push from a look where Pause is close to
// what a round trip takes on a busy machine.
func handoffWithoutPause(s *stage) {
	took, pause := handoffs(s)
	if pause < 200*time.Millisecond {
		s.Logf("Pause is %v: too short to tell a push from a look", pause)
		return
	}
	if bound := min(pause/2, soon); took > bound {
		s.Errorf("a handoff took %v with a Pause of %v: the waiter was not told, it looked", took, pause)
	}
}

func handoffWithinPause(s *stage) {
	took, pause := handoffs(s)
	if took > pause+soon {
		s.Errorf("a handoff took %v with a Pause of %v", took, pause)
	}
}

// awaiter awaits one claim and counts the returns that brought nothing before
// Pause was over.
func awaiter(p *player, c driver.Claim, last driver.Standing, vain *atomic.Int32) *task {
	return p.s.start(func() error {
		for !last.Held {
			start := time.Now()
			st, err := p.Await(p.s.ctx, c, last)
			if err != nil {
				return err
			}
			if !st.Held && (last.Pause == 0 || time.Since(start) < last.Pause*9/10) {
				vain.Add(1)
			}
			last = st
		}
		return nil
	})
}

// inVain allows for two early returns, which a contract that says "may return early"
// cannot forbid, and for more where the machine is slow: a waiter that does not listen
// yet when the first Leave comes has to look. So one try of three must do.
func inVain(s *stage, try func(vain *atomic.Int32)) {
	const allowed, tries = 2, 3
	for n := 1; ; n++ {
		var vain atomic.Int32
		try(&vain)
		v := vain.Load()
		if v <= allowed || !s.can.Push { // without a push, Leave wakes nobody
			return
		}
		if n == tries {
			s.Errorf("%d waits were ended in vain, as in the %d tries before", v, n-1)
			return
		}
	}
}

// wakesTheNext: a herd of eight makes 28.
func wakesTheNext(s *stage) {
	inVain(s, func(vain *atomic.Int32) { eightInTurn(s, vain) })
}

func eightInTurn(s *stage, vain *atomic.Int32) {
	const n = 8
	a := s.join()
	ca := s.claim()
	a.hold(ca)
	var (
		ps    [n]*player
		cs    [n]driver.Claim
		tasks [n]*task
	)
	for i := range n {
		ps[i], cs[i] = s.join(), s.claim()
		tasks[i] = awaiter(ps[i], cs[i], ps[i].stand(cs[i]), vain)
	}
	time.Sleep(20 * time.Millisecond) // so that they most likely wait
	a.leave(ca)
	for i := range n {
		tasks[i].wait("Await")
		if i+1 < n {
			expectWaiting(s, tasks[i+1])
		}
		ps[i].leave(cs[i])
	}
}

// expectWaiting fails if a waiter holds while somebody ahead of it does.
func expectWaiting(s *stage, k *task) {
	s.Helper()
	select {
	case <-k.done:
		s.Fatalf("a waiter's Await ended (%v) before the holder left", k.err)
	default:
	}
}

func wakesReaders(s *stage) {
	inVain(s, func(vain *atomic.Int32) { readersBeforeAWriter(s, vain) })
}

func readersBeforeAWriter(s *stage, vain *atomic.Int32) {
	w := s.join()
	cw := s.writer()
	w.hold(cw)
	cs := []driver.Claim{s.reader(), s.reader(), s.reader(), s.writer(), s.reader()}
	var (
		ps    []*player
		tasks []*task
	)
	for i, c := range cs {
		ps = append(ps, s.join())
		tasks = append(tasks, awaiter(ps[i], c, ps[i].stand(c), vain))
	}
	time.Sleep(20 * time.Millisecond) // so that they most likely wait
	w.leave(cw)
	s.promptly("waking three readers", func() {
		for _, k := range tasks[:3] {
			k.wait("a reader's Await")
		}
	})
	expectWaiting(s, tasks[3])
	expectWaiting(s, tasks[4])
	for i := range 3 {
		ps[i].leave(cs[i])
	}
	tasks[3].wait("the writer's Await")
	expectWaiting(s, tasks[4])
	ps[3].leave(cs[3])
	tasks[4].wait("the last reader's Await")
	ps[4].leave(cs[4])
}

func expiryWakes(s *stage) {
	inTime(s, func(ttl time.Duration) bool {
		a, b := s.joinFor(ttl), s.join()
		ca, cb := s.claim(), s.claim()
		ca.Name += "/" + newID()
		cb.Name = ca.Name
		sent := time.Now()
		a.hold(ca)
		answered := time.Now()
		last := b.enter(cb)
		if last.Held && time.Since(sent) >= a.TTL() { // the holder's time was over before the other came
			b.shut()
			a.shut()
			return false
		}
		if last.Held {
			s.Fatalf("Enter beside a holder: %+v", last)
		}
		a.die()
		if _, err := b.until(s.ctx, cb, last); err != nil {
			s.Fatalf("Await: %v", err)
		}
		if late := time.Since(answered); late > 3*a.TTL()+soon {
			s.Errorf("the waiter holds %v after a holder with a TTL of %v was last heard of", late, a.TTL())
		}
		return true
	})
}
