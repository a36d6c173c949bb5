package verify

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
)

// A kind is one of the names that workers contend for.
type kind struct {
	Name  string // below the prefix
	Limit int
	Fair  bool
	Tried bool // it is only tried, by a goroutine of its own in each worker, and free most of the time
	Pair  int  // from 1: only this worker and the next one use it, each with a goroutine of its own; 0: all
}

// permits is the limit of the semaphore.
const permits = 4

// kindsOf returns the names that an engine can serve. Those for all workers have lines in
// which everything meets; while a worker that was stopped or cut off has a place in them,
// they stand still. So pairs of workers have names too, and those of other workers go on.
func kindsOf(f driver.Features, workers int) []kind {
	kinds := []kind{{Name: "mutex", Limit: 1}, {Name: "mutex-fair", Limit: 1, Fair: f.Queue}, {Name: "tried", Limit: 1, Tried: true}}
	if f.Shared {
		kinds = append(kinds, kind{Name: "readers-writers", Limit: driver.All, Fair: f.Queue})
	}
	if f.Count {
		kinds = append(kinds, kind{Name: "permits", Limit: permits, Fair: f.Queue})
	}
	for n := range workers {
		kinds = append(kinds, kind{Name: fmt.Sprintf("pair-%d", n+1), Limit: 1, Fair: f.Queue && n%2 == 0, Pair: n + 1})
	}
	return kinds
}

// lanesOf returns the kinds of each goroutine of a worker, of which it draws.
func lanesOf(s setup) (lanes [][]kind) {
	var shared []kind
	for _, k := range s.Kinds {
		switch {
		case k.Pair == 0 && !k.Tried:
			shared = append(shared, k)
		case k.Tried, k.Pair == s.Slot || k.Pair%s.Workers+1 == s.Slot:
			lanes = append(lanes, []kind{k})
		}
	}
	for range s.Lanes {
		lanes = append(lanes, shared)
	}
	return lanes
}

// need draws how many units an attempt wants: mostly few, so that several hold at once.
func (k kind) need(r *rand.Rand) int {
	switch k.Limit {
	case 1:
		return 1
	case driver.All:
		if r.IntN(4) == 0 {
			return driver.All
		}
		return 1
	}
	return 1 + r.IntN(1+r.IntN(k.Limit))
}

// acquire returns the call of the library for an attempt.
func (k kind) acquire(c *pawl.Client, prefix string, need int, try bool, opts ...pawl.Option) func(context.Context) (*pawl.Lease, error) {
	if k.Fair {
		opts = append(opts, pawl.WithFair())
	}
	name := prefix + k.Name
	switch {
	case k.Limit == 1 && try:
		return c.Mutex(name, opts...).TryLock
	case k.Limit == 1:
		return c.Mutex(name, opts...).Lock
	case k.Limit == driver.All:
		rw := c.RWMutex(name, opts...)
		switch {
		case need == 1 && try:
			return rw.TryRLock
		case need == 1:
			return rw.RLock
		case try:
			return rw.TryLock
		}
		return rw.Lock
	}
	s := c.Semaphore(name, k.Limit, opts...)
	return func(ctx context.Context) (*pawl.Lease, error) {
		if try {
			return s.TryAcquire(ctx, need)
		}
		return s.Acquire(ctx, need)
	}
}
