package redlock_test

import (
	"context"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/internal/faultproxy"
	"github.com/pawl-go/pawl/internal/testserver"
)

// A register is the resource that the lock protects: it knows the highest token it has
// seen, and refuses a lower one.
type register struct {
	t        *testing.T
	accesses atomic.Int64
	overlaps atomic.Int64
	refused  atomic.Int64
	stepped  atomic.Int64 // when a clock was last stepped, unix ns

	mu     sync.Mutex // guards what follows
	high   uint64
	seen   map[uint64]bool
	inside map[*pawl.Lease]bool
}

// enter checks a new holder. Overlaps within excusable of a clock step are only counted.
func (r *register) enter(l *pawl.Lease, excusable time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	token := l.Fence()
	if r.seen[token] {
		r.t.Errorf("token %d was given twice", token)
	}
	r.seen[token] = true
	stepped := time.Since(time.Unix(0, r.stepped.Load())) < excusable
	for other := range r.inside {
		if other.Err() != nil || l.Err() != nil {
			continue // its holder knows that the lease is lost
		}
		r.overlaps.Add(1)
		if !stepped {
			r.t.Errorf("two hold the name, with tokens %d and %d, and no clock was stepped", other.Fence(), token)
		}
	}
	if token < r.high {
		r.refused.Add(1)
		if !stepped {
			r.t.Errorf("token %d was given after %d", token, r.high)
		}
	}
	r.inside[l] = true
	r.high = max(r.high, token)
}

// access is a holder's use of the resource; a token below the highest is refused.
func (r *register) access(l *pawl.Lease) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.accesses.Add(1)
	if l.Fence() < r.high {
		r.refused.Add(1)
	}
}

func (r *register) leave(l *pawl.Lease) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.inside, l)
}

// A faultRun injects faults into a minority of five nodes while clients lock a name.
type faultRun struct {
	*cluster
	t      *testing.T
	clocks []*testserver.Clock
	r      *register
	steps  bool

	mu     sync.Mutex // guards counts
	counts map[string]int
}

const (
	faultTTL    = time.Second
	faultMaxTTL = 2 * time.Second
)

func newFaultRun(t *testing.T, steps bool) *faultRun {
	s := &faultRun{t: t, steps: steps, counts: map[string]int{}, cluster: &cluster{query: "max-ttl=2s"},
		r: &register{t: t, seen: map[uint64]bool{}, inside: map[*pawl.Lease]bool{}}}
	for range 5 {
		if !steps {
			s.servers = append(s.servers, testserver.Redis(t, "--dbfilename", "dump.rdb"))
			continue
		}
		clock := testserver.NewClock(t)
		s.clocks = append(s.clocks, clock)
		s.servers = append(s.servers, testserver.RedisOn(t, clock, "--dbfilename", "dump.rdb"))
	}
	s.addProxies(t)
	s.waitForAge(t)
	return s
}

// inject injects a fault into node i for a while.
func (s *faultRun) inject(ctx context.Context, rnd *rand.Rand, i int) {
	pause := func() {
		select {
		case <-time.After(time.Duration(rnd.Int64N(int64(2 * faultTTL)))):
		case <-ctx.Done():
		}
	}
	faults := []string{"silent", "deaf", "mute", "killed", "killed", "saved", "stopped", "emptied", "cut"}
	if s.steps {
		faults = append(faults, "stepped", "stepped")
	}
	fault := faults[rnd.IntN(len(faults))]
	s.mu.Lock()
	s.counts[fault]++
	s.mu.Unlock()
	switch fault {
	case "silent":
		s.proxies[i].BlackHole(faultproxy.Both)
		pause()
	case "deaf":
		s.proxies[i].BlackHole(faultproxy.ToServer)
		pause()
	case "mute":
		s.proxies[i].BlackHole(faultproxy.ToClient)
		pause()
	case "saved": // the next restart loads this state
		_ = s.at(s.t, i, "SAVE").Error()
	case "killed":
		s.servers[i].Kill()
		pause()
		s.servers[i].Restart()
	case "stopped":
		s.servers[i].Pause()
		pause()
		s.servers[i].Resume()
	case "emptied":
		_ = s.at(s.t, i, "FLUSHALL").Error()
	case "cut":
		s.proxies[i].Reset()
	case "stepped":
		d := []time.Duration{-time.Hour, -faultTTL, faultTTL / 2, faultTTL, time.Hour}[rnd.IntN(5)]
		s.r.stepped.Store(time.Now().UnixNano())
		s.clocks[i].Step(d)
		pause()
		s.r.stepped.Store(time.Now().UnixNano())
		s.clocks[i].Step(-d)
	}
	s.proxies[i].Heal()
	s.waitUntilVoting(ctx, i)
}

// waitUntilVoting waits until a node votes: at most two of five may not vote at a time.
func (s *faultRun) waitUntilVoting(ctx context.Context, i int) {
	for ctx.Err() == nil && !s.votes(s.t, i) {
		time.Sleep(20 * time.Millisecond)
	}
}

func (s *faultRun) client(ctx context.Context, seed uint64) {
	c := s.cluster.client(s.t, pawl.WithTTL(faultTTL))
	rnd := rand.New(rand.NewPCG(seed, 7))
	for ctx.Err() == nil {
		wait, cancel := context.WithTimeout(ctx, 5*faultTTL)
		l, err := c.Mutex("name").Lock(wait)
		cancel()
		if err != nil {
			continue
		}
		s.r.enter(l, 2*faultMaxTTL)
		for range 3 {
			select {
			case <-time.After(time.Duration(rnd.Int64N(int64(20 * time.Millisecond)))):
				s.r.access(l)
			case <-l.Context().Done():
			}
		}
		s.r.leave(l)
		_ = l.Unlock() // fails where nodes are unreachable
	}
}

// neighbour uses the same servers with another prefix.
func (s *faultRun) neighbour(ctx context.Context) {
	other := &cluster{servers: s.servers, proxies: s.proxies, query: s.query + "&prefix=other:"}
	c := other.client(s.t, pawl.WithTTL(faultTTL))
	for ctx.Err() == nil {
		wait, cancel := context.WithTimeout(ctx, faultTTL)
		if l, err := c.Mutex("name").Lock(wait); err == nil {
			_ = l.Unlock() // fails where nodes are unreachable
		}
		cancel()
		select {
		case <-time.After(20 * time.Millisecond): // a restarted node does not vote for a hundred times as long
		case <-ctx.Done():
		}
	}
}

func (s *faultRun) run(d time.Duration) {
	ctx, cancel := context.WithTimeout(s.t.Context(), d)
	defer cancel()
	var wg sync.WaitGroup
	for id := range uint64(4) {
		wg.Go(func() { s.client(ctx, id) })
	}
	wg.Go(func() { s.neighbour(ctx) })
	time.Sleep(100 * time.Millisecond)
	rnd := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 3))
	for ctx.Err() == nil {
		var faults sync.WaitGroup
		for _, i := range rnd.Perm(5)[:1+rnd.IntN(2)] {
			own := rand.New(rand.NewPCG(rnd.Uint64(), 5))
			faults.Go(func() { s.inject(ctx, own, i) })
		}
		faults.Wait()
	}
	wg.Wait()
	grants := len(s.r.seen)
	s.t.Logf("%d grants, %d accesses, %d overlaps, %d refused by token; faults %v", grants, s.r.accesses.Load(), s.r.overlaps.Load(), s.r.refused.Load(), s.counts)
	if grants < int(d/(5*faultTTL)) { // an idle machine has ten times as many
		s.t.Errorf("only %d grants in %v", grants, d)
	}
}

func TestRandomFaultsOfAMinority(t *testing.T) {
	t.Parallel()
	newFaultRun(t, false).run(15 * time.Second)
}

// TestSoakRandomFaults injects faults, clock steps included, for the duration
// PAWL_SOAK.
func TestSoakRandomFaults(t *testing.T) {
	d, err := time.ParseDuration(os.Getenv("PAWL_SOAK"))
	if err != nil {
		t.Skip("PAWL_SOAK is not set")
	}
	newFaultRun(t, true).run(d)
}
