package quorum_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/quorum"
)

// A trial is one random run: clients lock one name in turn while nodes are cut off and
// emptied.
type trial struct {
	*testing.T
	net    *network
	ttl    time.Duration
	inside atomic.Int32
	grants atomic.Int64

	mu   sync.Mutex // guards what follows
	last uint64     // of exclusive grants
	seen map[uint64]bool
}

func newTrial(t *testing.T, n int, seed uint64) *trial {
	return &trial{T: t, net: newNetwork(n, seed), ttl: time.Second, seen: map[uint64]bool{}}
}

// hold checks a lease's token and that the lease is exclusive, and keeps it for d.
func (r *trial) hold(ctx context.Context, lease *pawl.Lease, exclusive bool, d time.Duration) {
	r.grants.Add(1)
	token := lease.Fence()
	r.mu.Lock()
	if r.seen[token] {
		r.Errorf("token %d was given twice", token)
	}
	r.seen[token] = true
	if exclusive && token <= r.last {
		r.Errorf("token %d was given after %d", token, r.last)
	}
	if exclusive {
		r.last = token
	}
	r.mu.Unlock()
	if exclusive {
		if n := r.inside.Add(1); n != 1 && lease.Err() == nil {
			r.Errorf("%d hold it at the same time", n)
		}
		defer r.inside.Add(-1)
	}
	select {
	case <-time.After(d):
	case <-lease.Context().Done():
	case <-ctx.Done():
	}
}

func (r *trial) client(ctx context.Context, id int, seed uint64, readers bool) {
	e, err := quorum.New(r.net.client(), quorum.WithMaxTTL(r.ttl))
	if err != nil {
		r.Error(err)
		return
	}
	defer e.Close()
	c := pawl.New(e, pawl.WithTTL(r.ttl))
	defer c.Close()
	rnd := rand.New(rand.NewPCG(seed, uint64(id)))
	rw := c.RWMutex("name")
	for ctx.Err() == nil {
		exclusive := !readers || rnd.IntN(3) == 0
		lock := rw.Lock
		if !exclusive {
			lock = rw.RLock
		}
		wait, cancel := context.WithTimeout(ctx, time.Duration(1+rnd.IntN(20))*r.ttl/4)
		lease, err := lock(wait)
		cancel()
		if err != nil {
			if ctx.Err() == nil && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, pawl.ErrUnreachable) {
				r.Errorf("client %d: %v", id, err)
			}
			continue
		}
		r.hold(ctx, lease, exclusive, time.Duration(rnd.Int64N(int64(r.ttl/4))))
		_ = lease.Unlock() // fails where the nodes are unreachable
		time.Sleep(time.Duration(rnd.Int64N(int64(20 * time.Millisecond))))
	}
}

// injectFaults cuts nodes off and empties them. It mostly leaves a majority that works,
// and never empties enough nodes for a majority to forget its grants.
func (r *trial) injectFaults(ctx context.Context, seed uint64) {
	rnd := rand.New(rand.NewPCG(seed, 99))
	n := len(r.net.nodes)
	for ctx.Err() == nil {
		i := rnd.IntN(n)
		lost, unusable := r.impaired(i)
		spare := (n - 1) / 2
		switch rnd.IntN(3) {
		case 0:
			if unusable < spare || rnd.IntN(10) == 0 {
				r.net.cut(i, true)
			}
		case 1:
			for j := range n {
				r.net.cut(j, false)
			}
		case 2:
			if lost < spare && unusable < spare {
				r.net.nodes[i].Forget()
			}
		}
		time.Sleep(time.Duration(rnd.Int64N(int64(2 * r.ttl))))
	}
	for i := range n {
		r.net.cut(i, false)
	}
}

// impaired counts the other nodes that do not vote, and those that do not vote
// or cannot be reached.
func (r *trial) impaired(but int) (lost, unusable int) {
	for j, node := range r.net.nodes {
		if j == but {
			continue
		}
		if !node.Votes() {
			lost++
		}
		if !node.Votes() || r.net.isDown(j) {
			unusable++
		}
	}
	return lost, unusable
}

// run runs clients and faults for d of the bubble's time.
func (r *trial) run(clients int, seed uint64, readers bool, d time.Duration) {
	ctx, cancel := context.WithTimeout(r.Context(), d)
	defer cancel()
	var wg sync.WaitGroup
	for id := range clients {
		wg.Go(func() { r.client(ctx, id, seed, readers) })
	}
	wg.Go(func() { r.injectFaults(ctx, seed) })
	wg.Wait()
	r.net.late.Wait()
}

func TestTokensNeverRepeatWhateverNodesDo(t *testing.T) {
	seeds, virtual := uint64(4), time.Minute
	if testing.Short() {
		seeds = 2
	}
	t.Run("", func(t *testing.T) {
		for seed := range seeds {
			for _, n := range []int{3, 4, 5} {
				t.Run(fmt.Sprint(n, " nodes, seed ", seed), func(t *testing.T) {
					t.Parallel()
					synctest.Test(t, func(t *testing.T) {
						r := newTrial(t, n, seed)
						r.net.delay, r.net.loss, r.net.twice = 5*time.Millisecond, 0.02, 0.02
						r.run(4, seed, seed%2 == 1, virtual)
						t.Logf("%d grants", r.grants.Load())
						if r.grants.Load() < 40 {
							t.Errorf("only %d grants in %v", r.grants.Load(), virtual)
						}
					})
				})
			}
		}
	})
}

// TestSoakTokensNeverRepeat repeats the test with new seeds for the duration PAWL_SOAK.
func TestSoakTokensNeverRepeat(t *testing.T) {
	d, err := time.ParseDuration(os.Getenv("PAWL_SOAK"))
	if err != nil {
		t.Skip("PAWL_SOAK is not set")
	}
	var grants, runs int64
	for start := time.Now(); time.Since(start) < d && !t.Failed(); runs++ {
		seed := rand.Uint64()
		n := 3 + int(seed%3)
		synctest.Test(t, func(t *testing.T) {
			r := newTrial(t, n, seed)
			r.net.delay, r.net.loss, r.net.twice = 5*time.Millisecond, 0.02, 0.02
			r.run(4, seed, seed%2 == 1, 2*time.Minute)
			grants += r.grants.Load()
			if t.Failed() {
				t.Logf("%d nodes, seed %d", n, seed)
			}
		})
	}
	t.Logf("%d grants in %d runs of two minutes", grants, runs)
}
