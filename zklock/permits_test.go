package zklock

import (
	"context"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/internal/faultproxy"
)

// A pool counts the permits that are out, by what their holders believe.
type pool struct {
	mu    sync.Mutex // guards what follows
	out   map[*pawl.Lease]int
	turns int
}

// take notes a lease, and returns how many permits are out in all.
func (p *pool) take(l *pawl.Lease, permits int) (all int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.out[l] = permits
	p.turns++
	for l, n := range p.out {
		if l.Err() == nil {
			all += n
		}
	}
	return all
}

func (p *pool) give(l *pawl.Lease) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.out, l)
}

// permits has clients take some of limit permits for a time, while their proxies fail at
// random and claims are evicted.
func permits(t *testing.T, length time.Duration) {
	const clients, callers, limit, ttl = 5, 6, 12, 2 * time.Second
	path := pathOf(t)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	all := &pool{out: map[*pawl.Lease]int{}}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var tasks sync.WaitGroup
	for i := range clients {
		link := faultproxy.New(t, oneServer(t))
		c := pawl.New(connect(t, []string{link.Addr()}, WithPath(path)), pawl.WithTTL(ttl))
		t.Cleanup(func() { c.Close() })
		t.Cleanup(link.Heal)
		for j := range callers {
			rnd := rand.New(rand.NewPCG(seed, uint64(i*callers+j)))
			tasks.Go(func() {
				for ctx.Err() == nil {
					n := 1 + rnd.IntN(4)
					l, err := c.Semaphore("gpu", limit).Acquire(ctx, n)
					if err != nil {
						continue
					}
					if out := all.take(l, n); out > limit {
						t.Errorf("%d permits of %d are out", out, limit)
					}
					time.Sleep(time.Duration(rnd.Int64N(int64(3 * time.Millisecond))))
					all.give(l)
					_ = l.Unlock() // lost or unknown, some of them
				}
			})
		}
		faults := &faultyClient{proxy: link, rnd: rand.New(rand.NewPCG(seed, uint64(1000+i)))}
		tasks.Go(func() {
			for ctx.Err() == nil {
				time.Sleep(time.Duration(faults.rnd.Int64N(int64(3 * time.Second))))
				faults.injectFault()
			}
		})
	}
	admin := connect(t, []string{oneServer(t)}, WithPath(path))
	tasks.Go(func() {
		for ctx.Err() == nil {
			time.Sleep(50 * time.Millisecond)
			line, err := admin.Line(ctx, "gpu")
			if err != nil || len(line) == 0 {
				continue
			}
			if x := line[rand.IntN(len(line))]; !x.Held { // a holder would go on until its next beat
				_ = admin.Evict(ctx, x) // or it has left
			}
		}
	})
	took := lasting(length, func(goal int) bool {
		all.mu.Lock()
		defer all.mu.Unlock()
		return all.turns >= goal
	})
	cancel()
	tasks.Wait()
	t.Logf("%d turns", all.turns)
	if all.turns < goalOf(length) {
		t.Errorf("only %d turns in %v", all.turns, took)
	}
	awaitLength(t, admin, "gpu", 0)
}

func TestRandomFaultsLeavePermitsRight(t *testing.T) {
	t.Parallel()
	permits(t, 5*time.Second)
}

// TestSoakPermits does so for as long as PAWL_SOAK says.
func TestSoakPermits(t *testing.T) {
	d, err := time.ParseDuration(os.Getenv("PAWL_SOAK"))
	if err != nil {
		t.Skip("PAWL_SOAK is not set")
	}
	permits(t, d)
}
