package sqllock_test

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// retried tells how often an engine's store sent a batch again because the
// server had undone it.
type retried interface{ Retried() int64 }

// A visit is one hold as the test saw it. Moments come from one counter.
type visit struct {
	asked, answered, held int64
	token                 uint64
	exclusive             bool
}

// An arena is one name: what is inside now, and who was.
type arena struct {
	name   string
	mu     sync.Mutex // guards what follows
	units  int
	whole  bool
	visits []visit
}

const arenaLimit = 4

// come and go fail on an overlap.
func (a *arena) come(c driver.Claim, v visit) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.whole || c.Exclusive() && a.units > 0 || !c.Exclusive() && a.units+c.Need > arenaLimit {
		return fmt.Errorf("%s: %d of %d came in to %d units, whole %v", a.name, c.Need, c.Limit, a.units, a.whole)
	}
	if c.Exclusive() {
		a.whole = true
	} else {
		a.units += c.Need
	}
	a.visits = append(a.visits, v)
	return nil
}

func (a *arena) leave(c driver.Claim) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if c.Exclusive() {
		a.whole = false
	} else {
		a.units -= c.Need
	}
}

// check looks for tokens that went back and for those who were let in before
// somebody who was in line when they asked.
func (a *arena) check(t *testing.T) {
	slices.SortFunc(a.visits, func(x, y visit) int { return cmp.Compare(x.held, y.held) })
	for i, later := range a.visits {
		for _, earlier := range a.visits[max(0, i-200):i] {
			if later.answered < earlier.asked && (later.exclusive || earlier.exclusive) {
				t.Errorf("%s: one that was in line at %d held after one that asked at %d", a.name, later.answered, earlier.asked)
			}
			if later.token == earlier.token || (later.exclusive || earlier.exclusive) && later.token < earlier.token {
				t.Errorf("%s: token %d was held after token %d", a.name, later.token, earlier.token)
			}
		}
		if t.Failed() {
			return
		}
	}
}

// torture has clients visit names at random, as readers of units and as those
// who want the name whole, until each has held rounds times.
func torture(t *testing.T, r *rig, clients, rounds, names int) {
	arenas := make([]*arena, names)
	prefix := nameOf(t)
	for i := range arenas {
		arenas[i] = &arena{name: fmt.Sprintf("%s/%d", prefix, i)}
	}
	engines := []driver.Engine{r.engine(t), r.engine(t), r.engine(t), r.engine(t)}
	var clock, holds atomic.Int64
	var wg sync.WaitGroup
	begun := time.Now()
	for i := range clients {
		s := openSession(t, engines[i%len(engines)], time.Minute)
		wg.Go(func() {
			for range rounds {
				if err := pass(t.Context(), s, arenas[rand.IntN(names)], &clock); err != nil {
					t.Error(err)
					return
				}
				holds.Add(1)
			}
		})
	}
	wg.Wait()
	for _, a := range arenas {
		a.check(t)
	}
	again := int64(0)
	for _, e := range engines {
		if x, ok := e.(retried); ok {
			again += x.Retried()
		}
	}
	if again != 0 {
		t.Errorf("%d batches were rolled back by the server and sent again", again)
	}
	t.Logf("%d holds over %d names by %d clients in %v", holds.Load(), names, clients, time.Since(begun))
}

// visitors is torture on one engine.
func visitors(t *testing.T, e driver.Engine, arenas []*arena, clients, rounds int) {
	t.Helper()
	var clock atomic.Int64
	var wg sync.WaitGroup
	for range clients {
		s := openSession(t, e, time.Minute)
		wg.Go(func() {
			for range rounds {
				if err := pass(t.Context(), s, arenas[rand.IntN(len(arenas))], &clock); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// pass is one visit.
func pass(ctx context.Context, s driver.Session, a *arena, clock *atomic.Int64) error {
	c := mutex(a.name)
	switch rand.IntN(4) {
	case 0:
		c.Need, c.Limit = 1, arenaLimit
	case 1:
		c.Need, c.Limit = 1+rand.IntN(arenaLimit-1), arenaLimit
	case 2:
		c.Need, c.Limit = arenaLimit, arenaLimit
	}
	v := visit{asked: clock.Add(1), exclusive: c.Exclusive()}
	st, err := s.Enter(ctx, c)
	if err != nil {
		return fmt.Errorf("enter: %w", err)
	}
	v.answered = clock.Add(1)
	for !st.Held {
		if st, err = s.Await(ctx, c, st); err != nil || st.Gone {
			return fmt.Errorf("await: %+v, %w", st, err)
		}
	}
	v.held, v.token = clock.Add(1), st.Token
	if err := a.come(c, v); err != nil {
		return err
	}
	a.leave(c)
	if err := s.Leave(ctx, c); err != nil {
		return fmt.Errorf("leave: %w", err)
	}
	return nil
}

// Without the race detector there are more, see the test of the same name; and
// many more in the soak test.
func TestSixteenClientsNeverOverlapDeadlockOrOvertake(t *testing.T) {
	everywhere(t, func(t *testing.T, r *rig) { sixteen(t, r, 12) })
}

// sixteen tortures one name, some and many; no more than 128 holds where waiters
// look for their turn.
func sixteen(t *testing.T, r *rig, rounds int) {
	if r.polls() {
		rounds = min(rounds, 8)
	}
	for _, names := range []int{1, 8, 1000} {
		t.Run(fmt.Sprintf("%d names", names), func(t *testing.T) { torture(t, r, 16, rounds, names) })
	}
}

// soakTime is how long a soak test runs; where it is not set the test is skipped.
func soakTime(t *testing.T) time.Duration {
	t.Helper()
	long := os.Getenv("PAWL_SOAK")
	if long == "" {
		t.Skip("PAWL_SOAK is not set")
	}
	d, err := time.ParseDuration(long)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestSoakSixteenClientsNeverOverlapDeadlockOrOvertake(t *testing.T) {
	d := soakTime(t)
	everywhere(t, func(t *testing.T, r *rig) {
		rounds := 2000
		if r.polls() {
			rounds = 200
		}
		for begun := time.Now(); time.Since(begun) < d && !t.Failed(); {
			for _, names := range []int{1, 8, 1000} {
				torture(t, r, 16, rounds, names)
			}
		}
	})
}
