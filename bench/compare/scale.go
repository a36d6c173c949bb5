package contest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"time"
)

// A Queuer is a Locker that tells when one of its calls has begun to wait, and that
// lets each of them wait in the store, not inside the process.
type Queuer interface {
	Locker
	Waits() <-chan struct{}
}

// A Store is a server, or several, that locks live in.
type Store struct {
	PIDs  []int
	Addrs []string
}

// A Crew is what one client has in hand while nothing happens.
type Crew struct {
	Held    int // names
	Waiting int // claims in one line behind another client's
}

// String returns the crew in words: its name as a contender.
func (c Crew) String() string {
	if c.Waiting > 0 {
		return fmt.Sprintf("%d waiting", c.Waiting)
	}
	return fmt.Sprintf("%d held", c.Held)
}

// The units of Scale, in their order.
const (
	ScaleTraffic = iota
	ScaleClient
	ScaleServer
	ScaleHeap
	ScaleLatency
)

// Scale is crews that hold what they hold, or wait, for the length of a round.
// Afterwards another client takes and gives back a free name.
func Scale(open func(ctx context.Context) (Queuer, error), on Store, crews ...Crew) Row {
	row := Row{Work: Work{
		Name: "scale",
		Does: "what many locks cost while nothing happens, and then what a free name costs another client",
		Units: []Unit{
			{Name: "B/s", Fewer: true}, {Name: "client-µs/s", Fewer: true}, {Name: "server-µs/s", Fewer: true},
			{Name: "heap-KiB", Fewer: true}, {Name: "p50-µs", Fewer: true},
		},
		Begin: func(ctx context.Context, c Contender) (Rounds, error) {
			l, err := c.Open(ctx)
			if err != nil {
				return nil, err
			}
			return l.(*company), nil
		},
	}}
	row.Patience = time.Minute // to come and to go
	for _, crew := range crews {
		row.Who = append(row.Who, Contender{Name: crew.String(), Open: func(ctx context.Context) (Locker, error) {
			c := &company{crew: crew, on: on}
			var err [2]error
			c.Queuer, err[0] = open(ctx)
			c.other, err[1] = open(ctx)
			return c, errors.Join(err[:]...)
		}})
	}
	return row
}

// A company is a crew with its client, and another client.
type company struct {
	Queuer
	other Queuer
	crew  Crew
	on    Store
	warm  bool
}

func (c *company) Close() error { return errors.Join(c.Queuer.Close(), c.other.Close()) }

func (c *company) Round(ctx context.Context, length time.Duration) ([]float64, error) {
	if !c.warm { // the round that does not count
		c.warm = true
		return make([]float64, 5), errors.Join(turn(ctx, c.Queuer, "bench/scale"), turn(ctx, c.other, "bench/scale"))
	}
	before := heap()
	dissolve, err := c.assemble(ctx)
	if err != nil {
		return nil, errors.Join(err, dissolve())
	}
	grown := max(heap()-before, 0)
	c.rest(ctx)
	figures, err := c.watch(ctx, length)
	if err != nil {
		return nil, errors.Join(err, dissolve())
	}
	times, err := (&stopwatch{c.other}).Round(ctx, min(length, freeTime))
	if err := errors.Join(err, dissolve()); err != nil {
		return nil, err
	}
	return append(figures, grown/1024, times[0]), nil
}

// rest waits until everybody has beaten once and all have come to rest, between two
// beats: then a round has whole ones.
func (c *company) rest(ctx context.Context) {
	const beat = ScaleTTL / 3
	last, begun, still := traffic(c.on.Addrs...), time.Now(), time.Now()
	for time.Since(begun) < beat || time.Since(still) < beat/4 && time.Since(begun) < 3*beat {
		select {
		case <-time.After(beat / 50):
		case <-ctx.Done():
			return
		}
		now := traffic(c.on.Addrs...)
		if grown(last, now) > 0 {
			still = time.Now()
		}
		last = now
	}
}

// freeTime is for how long at most the other client takes its free name.
const freeTime = 300 * time.Millisecond

// watch measures while nothing happens.
func (c *company) watch(ctx context.Context, length time.Duration) ([]float64, error) {
	begun, sent := time.Now(), 0
	last := traffic(c.on.Addrs...)
	client, server := spent(os.Getpid()), spent(c.on.PIDs...)
	// Connections come and go: what one has carried is known only while it is open.
	for time.Since(begun) < length {
		select {
		case <-time.After(min(50*time.Millisecond, length)):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		now := traffic(c.on.Addrs...)
		sent += grown(last, now)
		last = now
	}
	took := time.Since(begun).Seconds()
	client, server = spent(os.Getpid())-client, spent(c.on.PIDs...)-server
	return []float64{float64(sent) / took, client.Seconds() * 1e6 / took, max(server.Seconds(), 0) * 1e6 / took}, nil
}

// grown returns how much more connections have carried than before.
func grown(before, after map[int]int) (bytes int) {
	for port, n := range after {
		if n >= before[port] {
			n -= before[port]
		}
		bytes += n
	}
	return bytes
}

// assemble takes what the crew holds, and has it wait for what it waits for. dissolve
// gives all of it back, also after an error.
func (c *company) assemble(ctx context.Context) (dissolve func() error, err error) {
	wait, stop := context.WithCancel(ctx)
	var (
		mu      sync.Mutex // guards unlocks
		unlocks []func() error
		waiters sync.WaitGroup
	)
	dissolve = func() error {
		stop()
		waiters.Wait()
		err := atOnce(len(unlocks), func(i int) error { return unlocks[i]() })
		if err == nil && c.crew.Waiting > 0 { // who comes last has it when all before have left
			err = turn(ctx, c.other, wanted)
		}
		return err
	}
	take := func(l Locker, name string) error {
		unlock, err := l.Lock(ctx, name)
		if err == nil {
			mu.Lock()
			unlocks = append(unlocks, unlock)
			mu.Unlock()
		}
		return err
	}
	if err := atOnce(c.crew.Held, func(i int) error { return take(c.Queuer, fmt.Sprintf("bench/scale/%05d", i)) }); err != nil {
		return dissolve, err
	}
	if c.crew.Waiting == 0 {
		return dissolve, nil
	}
	if err := take(c.other, wanted); err != nil {
		return dissolve, err
	}
	for len(c.Waits()) > 0 { // of an earlier round
		<-c.Waits()
	}
	for range c.crew.Waiting {
		waiters.Go(func() { // dissolve ends and awaits it
			if unlock, err := c.Lock(wait, wanted); err == nil {
				_ = unlock() // its turn came with the end
			}
		})
	}
	for range c.crew.Waiting {
		select {
		case <-c.Waits():
		case <-ctx.Done():
			return dissolve, ctx.Err()
		}
	}
	return dissolve, nil // who has begun to wait has still to ask to be told; see rest
}

// wanted is the name that many wait for.
const wanted = "bench/scale/wanted"

// atOnce calls f for 0 to n-1, from a few goroutines.
func atOnce(n int, f func(i int) error) error {
	const hands = 128
	errs := make([]error, hands)
	var group sync.WaitGroup
	for h := range hands {
		group.Go(func() {
			for i := h; i < n && errs[h] == nil; i += hands {
				errs[h] = f(i)
			}
		})
	}
	group.Wait()
	return errors.Join(errs...)
}

func heap() float64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}
