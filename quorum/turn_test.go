package quorum_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/quorum"
)

// crowd is clients of one name, each as a process of its own.
type crowd struct {
	*testing.T
	net      *network
	writers  int
	readers  int
	hold     time.Duration
	without  []int           // a node that each client does not reach, in turn; nil: they reach all
	holds    []int           // by client, the writers first
	longest  []time.Duration // until a client had the name
	deadline time.Time
}

// newCrowd returns clients at a distance of up to a millisecond from each of five nodes.
func newCrowd(t *testing.T, writers, readers int) *crowd {
	net := newNetwork(5, 1)
	net.delay = time.Millisecond
	return &crowd{T: t, net: net, writers: writers, readers: readers, hold: 2 * time.Millisecond,
		holds: make([]int, writers+readers), longest: make([]time.Duration, writers+readers)}
}

// run lets all clients lock and unlock for a while, and returns how many holds there were.
func (r *crowd) run(length time.Duration) (total int) {
	r.deadline = time.Now().Add(length)
	var wg sync.WaitGroup
	for i := range r.holds {
		wg.Go(func() { r.client(i) })
	}
	wg.Wait()
	for _, n := range r.holds {
		total += n
	}
	return total
}

// order returns the nodes in the name's order.
func (r *crowd) order() []int {
	e := open(r.T, r.net.client())
	defer e.Close()
	return quorum.Order(sessionOf(r.T, e, "s", 10*time.Second), "name")
}

func (r *crowd) client(i int) {
	all := r.net.client()
	if r.without != nil {
		all = r.net.clientWithout(r.without[i%len(r.without)])
	}
	e, err := quorum.New(all)
	if err != nil {
		r.Error(err)
		return
	}
	defer e.Close()
	c := pawl.New(e)
	defer c.Close()
	lock := c.RWMutex("name").Lock
	if i >= r.writers {
		lock = c.RWMutex("name").RLock
	}
	ctx, cancel := context.WithDeadline(r.Context(), r.deadline)
	defer cancel()
	for {
		start := time.Now()
		l, err := lock(ctx)
		r.longest[i] = max(r.longest[i], time.Since(start))
		if errors.Is(err, context.DeadlineExceeded) {
			return
		}
		if err != nil {
			r.Error(err)
			return
		}
		time.Sleep(r.hold)
		r.holds[i]++
		if err := l.Unlock(); err != nil {
			r.Error(err)
		}
	}
}

// inBubble runs a test with a crowd in simulated time.
func inBubble(t *testing.T, writers, readers int, test func(r *crowd)) {
	synctest.Test(t, func(t *testing.T) { test(newCrowd(t, writers, readers)) })
}

func TestRivalsDoNotTakeNodesFromEachOther(t *testing.T) {
	var one int
	inBubble(t, 1, 0, func(r *crowd) { one = r.run(4 * time.Second) })
	for _, n := range []int{2, 5, 20} {
		inBubble(t, n, 0, func(r *crowd) {
			total := r.run(4 * time.Second)
			r.Logf("%d clients: %d holds, %d of one client alone", n, total, one)
			if total < one/2 {
				r.Errorf("%d clients had %d holds in the time in which one had %d", n, total, one)
			}
			for i, holds := range r.holds {
				if holds < total/n/4 {
					r.Errorf("client %d of %d had %d of %d holds", i, n, holds, total)
				}
			}
		})
	}
}

func TestWritersAmongReadersGetTheirTurn(t *testing.T) {
	inBubble(t, 2, 14, func(r *crowd) {
		total := r.run(4 * time.Second)
		r.Logf("%d holds: %v; the longest waits %v", total, r.holds, r.longest)
		for i := range 2 {
			if r.holds[i] < total/100 {
				r.Errorf("writer %d had %d of %d holds", i, r.holds[i], total)
			}
		}
		for i := 2; i < 16; i++ {
			if r.holds[i] < total/100 {
				r.Errorf("reader %d had %d of %d holds", i, r.holds[i], total)
			}
		}
	})
}

// The line of the name's first node only orders those who wait.
func TestRivalsGoOnWithoutTheFirstNode(t *testing.T) {
	var before int
	inBubble(t, 10, 0, func(r *crowd) { before = r.run(4 * time.Second) })
	for what, fail := range map[string]func(r *crowd, i int){
		"is cut off": func(r *crowd, i int) { r.net.cut(i, true) },
		"is cut off for a while": func(r *crowd, i int) {
			r.net.cut(i, true)
			time.AfterFunc(time.Second, func() { r.net.cut(i, false) })
		},
		"forgets": func(r *crowd, i int) { r.net.nodes[i].Forget() },
		"has a dead client": func(r *crowd, i int) { // in its line, and then as its holder
			c := mutex("dd", "name")
			c.Queue = true
			if _, err := sessionOf(r.T, r.net.nodes[i], "dead", time.Hour).Enter(r.Context(), c); err != nil {
				r.Error(err)
			}
		},
	} {
		t.Run(what, func(t *testing.T) {
			inBubble(t, 10, 0, func(r *crowd) {
				i := r.order()[0]
				time.AfterFunc(time.Second/2, func() { fail(r, i) })
				after := r.run(4 * time.Second)
				r.Logf("%d holds, %d with all nodes; the longest waits %v", after, before, r.longest)
				if after < before/3 {
					r.Errorf("%d holds, and %d with all nodes", after, before)
				}
				for i, wait := range r.longest {
					if wait > 3*time.Second {
						r.Errorf("client %d waited %v", i, wait)
					}
				}
			})
		})
	}
}

// Each client misses another node, so that they stand in the lines of two.
func TestRivalsThatDisagreeOnTheFirstNodeGoOn(t *testing.T) {
	for what, readers := range map[string]int{"writers": 0, "readers": 10} {
		t.Run(what, func(t *testing.T) {
			inBubble(t, 10-readers/2, readers, func(r *crowd) {
				r.without = r.order()[:3]
				total := r.run(4 * time.Second)
				r.Logf("%d holds: %v; the longest waits %v", total, r.holds, r.longest)
				if total < 400 {
					r.Errorf("%d holds in 4 s", total)
				}
				for i, wait := range r.longest { // the silent node is waited for at the first contact only
					if wait > 1500*time.Millisecond {
						r.Errorf("client %d waited %v", i, wait)
					}
				}
			})
		})
	}
}

func TestAWaiterThatGivesUpLeavesNothing(t *testing.T) {
	for at, when := range map[string]time.Duration{"in line": 50 * time.Millisecond, "after it looked": 2500 * time.Millisecond} {
		t.Run(at, func(t *testing.T) {
			withRig(t, func(t *testing.T, r *rig) {
				r.occupy(t, "name", 0, 1, 2, 3, 4)
				c := mutex("aa", "name")
				st, err := r.Enter(t.Context(), c)
				if err != nil || st.Held {
					t.Fatal(st, err)
				}
				ctx, cancel := context.WithTimeout(t.Context(), when)
				defer cancel()
				if st, err := r.Await(ctx, c, st); !errors.Is(err, context.DeadlineExceeded) {
					t.Fatal(st, err)
				}
				time.Sleep(10 * time.Millisecond)
				for i, m := range r.mem {
					if line, err := m.Line(t.Context(), "name"); err != nil || len(line) != 1 {
						t.Errorf("node %d: %+v, %v", i, line, err)
					}
				}
			})
		})
	}
}

// A waiter of an earlier version enters without a place in line whenever nodes report
// departures.
func TestAWaiterWithoutAPlaceIsServedAmongThoseWithOne(t *testing.T) {
	inBubble(t, 5, 0, func(r *crowd) {
		e := open(r.T, r.net.client())
		defer e.Close()
		s := sessionOf(r.T, e, "old", 10*time.Second)
		departures, err := e.Watch(r.Context(), "name")
		if err != nil {
			r.Fatal(err)
		}
		var others sync.WaitGroup
		others.Go(func() { r.run(20 * time.Second) })
		time.Sleep(100 * time.Millisecond)
		held := 0
		ctx, cancel := context.WithTimeout(r.Context(), 18*time.Second)
		defer cancel()
		for c := (driver.Claim{ID: "01d", Try: 1, Name: "name", Need: driver.All, Limit: driver.All}); ctx.Err() == nil; c.Try++ {
			if st, err := s.Enter(ctx, c); err == nil && st.Held {
				held++
				time.Sleep(2 * time.Millisecond)
				_ = s.Leave(context.Background(), c)
			}
			select {
			case <-departures:
			case <-time.After(time.Second):
			case <-ctx.Done():
			}
		}
		others.Wait()
		r.Logf("%d holds of the earlier version, and %v", held, r.holds)
		if held < 10 {
			r.Errorf("an earlier version got %d holds in 18 s, the others %v", held, fmt.Sprint(r.holds))
		}
	})
}

// A node to which thousands come at once answers some of them late. They wait in its line like
// the others: those of two lines are in each other's way.
func TestAllWaitInTheLineOfANodeThatAnswersSomeLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const claims, ttl = 42, 30 * time.Second
		var first, calls atomic.Int64
		first.Store(-1)
		mem, all := hookNodes(3, func(i int, op string, c *driver.Claim) error {
			if op == "enter" && c.Queue && int64(i) == first.Load() {
				if calls.Add(1)%4 == 0 {
					time.Sleep(500 * time.Millisecond) // twice as long as a silent node is waited for
				}
			}
			return nil
		})
		e := open(t, all)
		defer e.Close()
		holder, waiter := sessionOf(t, e, "holder", ttl), sessionOf(t, e, "waiter", ttl)
		first.Store(int64(quorum.Order(holder, "name")[0]))
		heldAlone(t, e, holder, mutex("aa", "name"))
		ctx, cancel := context.WithTimeout(t.Context(), ttl/3)
		defer cancel()
		var waiting sync.WaitGroup
		for n := range claims {
			c := mutex(fmt.Sprint("bb", n), "name")
			waiting.Go(func() { _, _ = waiter.Await(ctx, c, driver.Standing{}) })
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(ttl / 6)
		for i, m := range mem {
			line, err := m.Line(t.Context(), "name")
			want := 1
			if int64(i) == first.Load() {
				want += claims
			}
			if err != nil || len(line) != want {
				t.Errorf("%d are in line at node %d, %v; %d should be", len(line), i, err, want)
			}
		}
		cancel()
		waiting.Wait()
	})
}
