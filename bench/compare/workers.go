package compare

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// Alone measures one goroutine that locks and unlocks a name without contention,
// including the servers' processor time.
func Alone(servers ...int) Work {
	w := Apart(1, servers...)
	w.Name = "alone"
	w.Does = "lock and unlock, 1 goroutine, nobody else wants the name"
	return w
}

// Apart measures n goroutines of one process that each lock and unlock a name of
// their own, including the servers' processor time.
func Apart(n int, servers ...int) Work {
	w := Work{
		Name:  "apart",
		Does:  fmt.Sprintf("lock and unlock, %d goroutines of one process, each with a name of its own", n),
		Units: []Unit{{Name: "locks/s"}, {Name: "allocs/lock", Fewer: true}},
		Begin: func(ctx context.Context, c Contender) (Rounds, error) {
			locker, err := c.Open(ctx)
			if err != nil {
				return nil, err
			}
			names := make([]string, n)
			for i := range names {
				names[i] = fmt.Sprintf("bench/%d", i)
			}
			return &workers{locker, names, servers}, nil
		},
	}
	w.Units = append(w.Units, cpuUnits()...)
	return w
}

// workers are the goroutines of one process, with a name for each.
type workers struct {
	locker  Locker
	names   []string
	servers []int // by process id
}

func (c *workers) Close() error { return c.locker.Close() }

func (c *workers) Round(ctx context.Context, length time.Duration) ([]float64, error) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	m := startCPUMeter(c.servers)
	turns, took, err := c.run(ctx, length)
	if err != nil {
		return nil, err
	}
	total := 0
	for _, t := range turns {
		total += t
	}
	used := m.figures(total)
	runtime.ReadMemStats(&after)
	figures := []float64{
		float64(total) / took.Seconds(),
		float64(after.Mallocs-before.Mallocs) / float64(total),
	}
	return append(figures, used...), nil
}

// run makes every goroutine lock and unlock its name repeatedly, and returns how
// often each did within the time. No new lock begins afterwards; pending ones are
// waited for and not counted.
func (c *workers) run(ctx context.Context, length time.Duration) (turns []int, took time.Duration, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	turns = make([]int, len(c.names))
	var over atomic.Bool
	var group sync.WaitGroup
	begun := time.Now()
	for i, name := range c.names {
		group.Go(func() {
			for !over.Load() {
				if err := lockUnlock(ctx, c.locker, name); err != nil {
					if !over.Load() {
						cancel(err) // stops all
					}
					return
				}
				if !over.Load() {
					turns[i]++
				}
			}
		})
	}
	select {
	case <-time.After(length):
		over.Store(true)
		took = time.Since(begun)
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	// Some contenders sleep long between two attempts.
	late := time.AfterFunc(waiterLimit, func() { cancel(nil) })
	defer late.Stop()
	group.Wait()
	return turns, took, err
}

// waiterLimit is how long waiting calls may continue after a round is over.
const waiterLimit = 300 * time.Millisecond

func lockUnlock(ctx context.Context, locker Locker, name string) error {
	unlock, err := locker.Lock(ctx, name)
	if err != nil {
		return fmt.Errorf("lock %s: %w", name, err)
	}
	if err := unlock(); err != nil {
		return fmt.Errorf("unlock %s: %w", name, err)
	}
	return nil
}
