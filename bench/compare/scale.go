package compare

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"time"
)

// A Queuer is a Locker that reports when one of its calls begins to wait, and whose
// calls all wait in the store instead of inside the process.
type Queuer interface {
	Locker
	Waits() <-chan struct{}
}

// A Store is one or more servers.
type Store struct {
	PIDs  []int
	Addrs []string
}

// A Load is what one client holds and waits for while it is idle.
type Load struct {
	Held    int // names
	Waiting int // claims in one line behind another client's claim
}

// String describes the load: its name as a contender.
func (c Load) String() string {
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

// Scale measures clients that hold locks, or wait, for the length of a round, each
// with one Load. Afterwards another client locks and unlocks a free name.
func Scale(open func(ctx context.Context) (Queuer, error), on Store, crews ...Load) Row {
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
			return l.(*scaleRounds), nil
		},
	}}
	row.ExtraTime = time.Minute // to acquire and release everything
	for _, crew := range crews {
		row.Who = append(row.Who, Contender{Name: crew.String(), Open: func(ctx context.Context) (Locker, error) {
			c := &scaleRounds{crew: crew, on: on}
			var err [2]error
			c.Queuer, err[0] = open(ctx)
			c.other, err[1] = open(ctx)
			return c, errors.Join(err[:]...)
		}})
	}
	return row
}

// scaleRounds is a client with its Load, and another client.
type scaleRounds struct {
	Queuer
	other Queuer
	crew  Load
	on    Store
	warm  bool
}

func (c *scaleRounds) Close() error { return errors.Join(c.Queuer.Close(), c.other.Close()) }

func (c *scaleRounds) Round(ctx context.Context, length time.Duration) ([]float64, error) {
	if !c.warm { // the warm-up round, which does not count
		c.warm = true
		return make([]float64, 5), errors.Join(lockUnlock(ctx, c.Queuer, "bench/scale"), lockUnlock(ctx, c.other, "bench/scale"))
	}
	before := heap()
	dissolve, err := c.acquireAll(ctx)
	if err != nil {
		return nil, errors.Join(err, dissolve())
	}
	grown := max(heap()-before, 0)
	c.waitUntilIdle(ctx)
	figures, err := c.measureIdle(ctx, length)
	if err != nil {
		return nil, errors.Join(err, dissolve())
	}
	times, err := (&latencyRounds{c.other}).Round(ctx, min(length, freeTime))
	if err := errors.Join(err, dissolve()); err != nil {
		return nil, err
	}
	return append(figures, grown/1024, times[0]), nil
}

// waitUntilIdle waits until every session has beaten once and everything is idle
// between two beats, so that a round contains whole beats.
func (c *scaleRounds) waitUntilIdle(ctx context.Context) {
	const beat = ScaleTTL / 3
	last, begun, still := traffic(c.on.Addrs...), time.Now(), time.Now()
	for time.Since(begun) < beat || time.Since(still) < beat/4 && time.Since(begun) < 3*beat {
		select {
		case <-time.After(beat / 50):
		case <-ctx.Done():
			return
		}
		now := traffic(c.on.Addrs...)
		if growth(last, now) > 0 {
			still = time.Now()
		}
		last = now
	}
}

// freeTime is how long at most the other client uses its free name.
const freeTime = 300 * time.Millisecond

// measureIdle measures while nothing happens.
func (c *scaleRounds) measureIdle(ctx context.Context, length time.Duration) ([]float64, error) {
	begun, sent := time.Now(), 0
	last := traffic(c.on.Addrs...)
	client, server := cpuTime(os.Getpid()), cpuTime(c.on.PIDs...)
	// Connections come and go: their traffic is only known while they are open.
	for time.Since(begun) < length {
		select {
		case <-time.After(min(50*time.Millisecond, length)):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		now := traffic(c.on.Addrs...)
		sent += growth(last, now)
		last = now
	}
	took := time.Since(begun).Seconds()
	client, server = cpuTime(os.Getpid())-client, cpuTime(c.on.PIDs...)-server
	return []float64{float64(sent) / took, client.Seconds() * 1e6 / took, max(server.Seconds(), 0) * 1e6 / took}, nil
}

// growth returns how much more data connections have carried than before.
func growth(before, after map[int]int) (bytes int) {
	for port, n := range after {
		if n >= before[port] {
			n -= before[port]
		}
		bytes += n
	}
	return bytes
}

// acquireAll acquires what the load holds and starts its waiting calls. dissolve
// releases everything, and is valid even after an error.
func (c *scaleRounds) acquireAll(ctx context.Context) (dissolve func() error, err error) {
	wait, stop := context.WithCancel(ctx)
	var (
		mu      sync.Mutex // guards unlocks
		unlocks []func() error
		waiters sync.WaitGroup
	)
	dissolve = func() error {
		stop()
		waiters.Wait()
		err := concurrently(len(unlocks), func(i int) error { return unlocks[i]() })
		if err == nil && c.crew.Waiting > 0 { // the last waiter gets it after all before it have left
			err = lockUnlock(ctx, c.other, contendedName)
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
	if err := concurrently(c.crew.Held, func(i int) error { return take(c.Queuer, fmt.Sprintf("bench/scale/%05d", i)) }); err != nil {
		return dissolve, err
	}
	if c.crew.Waiting == 0 {
		return dissolve, nil
	}
	if err := take(c.other, contendedName); err != nil {
		return dissolve, err
	}
	for len(c.Waits()) > 0 { // of an earlier round
		<-c.Waits()
	}
	for range c.crew.Waiting {
		waiters.Go(func() { // dissolve ends it and waits for it
			if unlock, err := c.Lock(wait, contendedName); err == nil {
				_ = unlock() // its turn came at the end
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
	return dissolve, nil // a call that has begun to wait still has to subscribe; see waitUntilIdle
}

// contendedName is the name that many wait for.
const contendedName = "bench/scale/wanted"

// concurrently calls f for 0 to n-1, from a few goroutines.
func concurrently(n int, f func(i int) error) error {
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
