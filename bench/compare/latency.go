package compare

import (
	"context"
	"slices"
	"time"
)

// Latency measures one goroutine that locks and unlocks a name without contention,
// as the time of one lock with its unlock.
func Latency() Work {
	return Work{
		Name:  "latency",
		Does:  "one lock with its unlock, nobody else wants the name",
		Units: []Unit{{Name: "p50-µs", Fewer: true}, {Name: "p99-µs", Fewer: true}},
		Begin: func(ctx context.Context, c Contender) (Rounds, error) {
			locker, err := c.Open(ctx)
			if err != nil {
				return nil, err
			}
			return &latencyRounds{locker}, nil
		},
	}
}

type latencyRounds struct{ locker Locker }

func (s *latencyRounds) Close() error { return s.locker.Close() }

func (s *latencyRounds) Round(ctx context.Context, length time.Duration) ([]float64, error) {
	var times []float64
	for begun := time.Now(); len(times) == 0 || time.Since(begun) < length; {
		from := time.Now()
		if err := lockUnlock(ctx, s.locker, "bench/latency"); err != nil {
			return nil, err
		}
		times = append(times, float64(time.Since(from))/float64(time.Microsecond))
	}
	return quantiles(times), nil
}

// quantiles returns the median and the 99th percentile.
func quantiles(times []float64) []float64 {
	slices.Sort(times)
	return []float64{times[len(times)/2], times[len(times)*99/100]}
}
