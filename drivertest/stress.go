package drivertest

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/pawl-go/pawl/driver"
)

// stressCases are about many at once. What happened is judged by the test's own
// counters, not by what the engine says.
var stressCases = []lawCase{
	{name: "six contenders never overlap and keep their order", law: 2, run: contenders,
		why: "Six sessions take the name eight times each: never two at once, tokens in the order of holding, and whoever had an answer before another asked holds before it."},
}

// A visit is one hold as the test saw it. Moments come from one counter.
type visit struct {
	asked, answered, held int64
	token                 uint64
}

// An arena records visits and fails on overlap.
type arena struct {
	clock  atomic.Int64
	inside atomic.Int32
	mu     sync.Mutex // guards visits
	visits []visit
}

func contenders(s *stage) {
	const n, rounds = 6, 8
	var (
		a     arena
		tasks []*task
	)
	for range n {
		p := s.join()
		tasks = append(tasks, s.start(func() error {
			for range rounds {
				if err := a.visit(p, s.claim()); err != nil {
					return err
				}
			}
			return nil
		}))
	}
	for _, k := range tasks {
		k.wait("a contender")
	}
	if len(a.visits) != n*rounds {
		s.Fatalf("%d visits of %d", len(a.visits), n*rounds)
	}
	a.check(s, s.claim().Exclusive())
}

func (a *arena) visit(p *player, c driver.Claim) error {
	v := visit{asked: a.clock.Add(1)}
	st, err := p.ask(p.s.ctx, c)
	if err != nil {
		return err
	}
	v.answered = a.clock.Add(1)
	if c.Queue {
		st, err = p.until(p.s.ctx, c, st)
	} else if !st.Held {
		c, st, err = p.take(p.s.ctx, next(c))
	}
	if err != nil {
		return err
	}
	if inside := a.inside.Add(1); inside != 1 {
		return fmt.Errorf("%d hold it at the same time", inside)
	}
	v.held, v.token = a.clock.Add(1), st.Token
	a.mu.Lock()
	a.visits = append(a.visits, v)
	a.mu.Unlock()
	a.inside.Add(-1)
	return p.quit(p.s.ctx, c)
}

// check compares the order of holding with that of tokens and, where there is a
// line, with that of asking: who was answered before another asked comes first.
func (a *arena) check(s *stage, exclusive bool) {
	s.Helper()
	slices.SortFunc(a.visits, func(x, y visit) int { return int(x.held - y.held) })
	for i, later := range a.visits {
		for _, earlier := range a.visits[:i] {
			if s.can.Queue && later.answered < earlier.asked {
				s.Errorf("one that was in line at %d held after one that asked at %d", later.answered, earlier.asked)
			}
			if s.can.Fencing != driver.None && (later.token == earlier.token || exclusive && later.token < earlier.token) {
				s.Errorf("token %d was held after token %d", later.token, earlier.token)
			}
		}
	}
}
