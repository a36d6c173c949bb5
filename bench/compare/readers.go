package compare

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// A Sharer is a Locker with shared locks.
type Sharer interface {
	Locker
	RLock(ctx context.Context, name string) (unlock func() error, err error)
}

// Readers measures n goroutines of one process that contend for one name and hold
// it for a while: nine times out of ten to read, if the contender supports that,
// otherwise to write.
func Readers(n int, hold time.Duration) Work {
	return Work{
		Name:  "readers",
		Does:  fmt.Sprintf("%d goroutines of one process want one name for %v each, 90 %% of them to read", n, hold),
		Units: []Unit{{Name: "holds/s"}, {Name: "writer-p99-µs", Fewer: true}},
		Begin: func(ctx context.Context, c Contender) (Rounds, error) {
			locker, err := c.Open(ctx)
			if err != nil {
				return nil, err
			}
			return &readersAndWriter{locker, n, hold}, nil
		},
	}
}

// readersAndWriter does the rounds of Readers.
type readersAndWriter struct {
	Locker
	n    int
	hold time.Duration
}

func (l *readersAndWriter) Round(ctx context.Context, length time.Duration) ([]float64, error) {
	work, stop := context.WithTimeout(ctx, length)
	defer stop()
	var (
		holds   atomic.Int64
		mu      sync.Mutex // guards waits and failed
		waits   []float64  // of writers, in µs
		failed  error
		group   sync.WaitGroup
		fail    = func(err error) { mu.Lock(); failed = err; mu.Unlock(); stop() }
		waited  = func(d time.Duration) { mu.Lock(); waits = append(waits, float64(d.Microseconds())); mu.Unlock() }
		sharing = l.Locker.Lock
	)
	if s, ok := l.Locker.(Sharer); ok {
		sharing = s.RLock
	}
	begun := time.Now()
	for i := range l.n {
		group.Go(func() {
			for turn := i; work.Err() == nil; turn++ {
				take := sharing
				if turn%10 == 0 {
					take = l.Locker.Lock
				}
				from := time.Now()
				unlock, err := take(work, "bench/readers")
				if err != nil {
					if work.Err() == nil {
						fail(err)
					}
					return
				}
				if turn%10 == 0 {
					waited(time.Since(from))
				}
				time.Sleep(l.hold)
				holds.Add(1)
				if err := unlock(); err != nil {
					fail(err)
				}
			}
		})
	}
	group.Wait()
	took := time.Since(begun)
	if failed != nil {
		return nil, failed
	}
	if len(waits) == 0 { // in a round as short as the first
		return []float64{float64(holds.Load()) / took.Seconds(), 0}, ctx.Err()
	}
	return []float64{float64(holds.Load()) / took.Seconds(), quantiles(waits)[1]}, ctx.Err()
}
