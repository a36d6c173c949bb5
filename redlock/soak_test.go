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

// A register is what the lock protects: it knows the highest token it has seen,
// and refuses a lower one.
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

// enter is called by a new holder.
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
			continue // it knows that it has lost it
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

// access is what a holder does; with a token that is not the highest it is refused.
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

// A storm lets faults loose on a minority of five nodes.
type storm struct {
	*field
	t      *testing.T
	clocks []*testserver.Clock
	r      *register
	steps  bool

	mu     sync.Mutex // guards counts
	counts map[string]int
}

const (
	stormTTL    = time.Second
	stormMaxTTL = 2 * time.Second
)

func newStorm(t *testing.T, steps bool) *storm {
	s := &storm{t: t, steps: steps, counts: map[string]int{}, field: &field{query: "max-ttl=2s"},
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
	s.veil(t)
	s.ripen(t)
	return s
}

// strike does something to node i for a while and undoes it.
func (s *storm) strike(ctx context.Context, rnd *rand.Rand, i int) {
	pause := func() {
		select {
		case <-time.After(time.Duration(rnd.Int64N(int64(2 * stormTTL)))):
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
	case "saved": // and comes back with it, whenever it is killed
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
		d := []time.Duration{-time.Hour, -stormTTL, stormTTL / 2, stormTTL, time.Hour}[rnd.IntN(5)]
		s.r.stepped.Store(time.Now().UnixNano())
		s.clocks[i].Step(d)
		pause()
		s.r.stepped.Store(time.Now().UnixNano())
		s.clocks[i].Step(-d)
	}
	s.proxies[i].Heal()
	s.settled(ctx, i)
}

// settled waits until a node votes again: two of five may be away at a time.
func (s *storm) settled(ctx context.Context, i int) {
	for ctx.Err() == nil && !s.votes(s.t, i) {
		time.Sleep(20 * time.Millisecond)
	}
}

func (s *storm) client(ctx context.Context, seed uint64) {
	c := s.field.client(s.t, pawl.WithTTL(stormTTL))
	rnd := rand.New(rand.NewPCG(seed, 7))
	for ctx.Err() == nil {
		wait, cancel := context.WithTimeout(ctx, 5*stormTTL)
		l, err := c.Mutex("name").Lock(wait)
		cancel()
		if err != nil {
			continue
		}
		s.r.enter(l, 2*stormMaxTTL)
		for range 3 {
			select {
			case <-time.After(time.Duration(rnd.Int64N(int64(20 * time.Millisecond)))):
				s.r.access(l)
			case <-l.Context().Done():
			}
		}
		s.r.leave(l)
		_ = l.Unlock() // lost or unknown where nodes are away
	}
}

// neighbour uses the same servers with another prefix.
func (s *storm) neighbour(ctx context.Context) {
	other := &field{servers: s.servers, proxies: s.proxies, query: s.query + "&prefix=other:"}
	c := other.client(s.t, pawl.WithTTL(stormTTL))
	for ctx.Err() == nil {
		wait, cancel := context.WithTimeout(ctx, stormTTL)
		if l, err := c.Mutex("name").Lock(wait); err == nil {
			_ = l.Unlock() // lost or unknown where nodes are away
		}
		cancel()
		select {
		case <-time.After(20 * time.Millisecond): // a restarted node is silent for a hundred times as long
		case <-ctx.Done():
		}
	}
}

func (s *storm) rage(d time.Duration) {
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
		var strikes sync.WaitGroup
		for _, i := range rnd.Perm(5)[:1+rnd.IntN(2)] {
			own := rand.New(rand.NewPCG(rnd.Uint64(), 5))
			strikes.Go(func() { s.strike(ctx, own, i) })
		}
		strikes.Wait()
	}
	wg.Wait()
	grants := len(s.r.seen)
	s.t.Logf("%d grants, %d accesses, %d overlaps, %d refused by token; faults %v", grants, s.r.accesses.Load(), s.r.overlaps.Load(), s.r.refused.Load(), s.counts)
	if grants < int(d/(5*stormTTL)) { // a calm machine has ten times as many
		s.t.Errorf("only %d grants in %v", grants, d)
	}
}

func TestRandomFaultsOfAMinority(t *testing.T) {
	t.Parallel()
	newStorm(t, false).rage(15 * time.Second)
}

// TestSoakRandomFaults strikes for as long as PAWL_SOAK says, with clocks that
// are stepped as well.
func TestSoakRandomFaults(t *testing.T) {
	d, err := time.ParseDuration(os.Getenv("PAWL_SOAK"))
	if err != nil {
		t.Skip("PAWL_SOAK is not set")
	}
	newStorm(t, true).rage(d)
}
