package drivertest

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/pawl-go/pawl/driver"
)

// stressCases run many sessions at once. They judge by their own counters, not by
// the engine's answers.
var stressCases = []lawCase{
	{name: "six contenders never overlap and keep their order", law: 2, run: contenders,
		why: "Six sessions take the name eight times each: never two at once, tokens in the order of holding, and a claim that was in line before another was entered holds before it."},
}

// holdTimes are the events of one hold, numbered by a common counter.
type holdTimes struct {
	sent, answered, held int64
	token                uint64
}

// A holdRecorder records holds and detects overlaps.
type holdRecorder struct {
	clock  atomic.Int64
	inside atomic.Int32
	mu     sync.Mutex // guards holds
	holds  []holdTimes
}

func contenders(f *fixture) {
	const n, rounds = 6, 8
	var (
		a     holdRecorder
		calls []*backgroundCall
	)
	for range n {
		s := f.open()
		calls = append(calls, f.inBackground(func() error {
			for range rounds {
				if err := a.hold(s, f.claim()); err != nil {
					return err
				}
			}
			return nil
		}))
	}
	for _, call := range calls {
		call.wait("a contender")
	}
	if len(a.holds) != n*rounds {
		f.Fatalf("%d holds of %d", len(a.holds), n*rounds)
	}
	a.check(f, f.claim().Exclusive())
}

func (a *holdRecorder) hold(s *session, c driver.Claim) error {
	v := holdTimes{sent: a.clock.Add(1)}
	st, err := s.tryEnter(s.f.ctx, c)
	if err != nil {
		return err
	}
	v.answered = a.clock.Add(1)
	if c.Queue {
		st, err = s.awaitHeld(s.f.ctx, c, st)
	} else if !st.Held {
		c, st, err = s.acquire(s.f.ctx, nextTry(c))
	}
	if err != nil {
		return err
	}
	if inside := a.inside.Add(1); inside != 1 {
		return fmt.Errorf("%d hold it at the same time", inside)
	}
	v.held, v.token = a.clock.Add(1), st.Token
	a.mu.Lock()
	a.holds = append(a.holds, v)
	a.mu.Unlock()
	a.inside.Add(-1)
	return s.tryLeave(s.f.ctx, c)
}

// check compares the order of holds with the order of their tokens and, if the
// engine has lines, with the order of entering: a claim that was in line before
// another was sent must hold first.
func (a *holdRecorder) check(f *fixture, exclusive bool) {
	f.Helper()
	slices.SortFunc(a.holds, func(x, y holdTimes) int { return int(x.held - y.held) })
	for i, later := range a.holds {
		for _, earlier := range a.holds[:i] {
			if f.can.Queue && later.answered < earlier.sent {
				f.Errorf("a claim in line since event %d held after a claim entered at event %d", later.answered, earlier.sent)
			}
			if f.can.Fencing != driver.None && (later.token == earlier.token || exclusive && later.token < earlier.token) {
				f.Errorf("token %d was held after token %d", later.token, earlier.token)
			}
		}
	}
}
