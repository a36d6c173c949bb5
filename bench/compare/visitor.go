package compare

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Visitor measures a client that occasionally wants a name for which n goroutines
// of another client contend all the time, as the time of its wait.
func Visitor(n int) Work {
	return Work{
		Name:  "visitor",
		Does:  fmt.Sprintf("one lock of a client that comes now and then, of a name that %d goroutines of another client want all the time", n),
		Units: []Unit{{Name: "p50-µs", Fewer: true}, {Name: "p99-µs", Fewer: true}},
		Begin: func(ctx context.Context, c Contender) (Rounds, error) {
			home, err := c.Open(ctx)
			if err != nil {
				return nil, err
			}
			guest, err := c.Open(ctx)
			if err != nil {
				return nil, errors.Join(err, home.Close())
			}
			names := make([]string, n)
			for i := range names {
				names[i] = "bench/visitor"
			}
			return &visitedWorkers{workers{locker: home, names: names}, guest}, nil
		},
	}
}

// visitedWorkers are workers, and a client that is not one of them.
type visitedWorkers struct {
	workers
	visitor Locker
}

func (p *visitedWorkers) Close() error { return errors.Join(p.workers.Close(), p.visitor.Close()) }

func (p *visitedWorkers) Round(ctx context.Context, length time.Duration) ([]float64, error) {
	home := make(chan error, 1)
	go func() { // ends soon after length; received below
		_, _, err := p.run(ctx, length)
		home <- err
	}()
	var times []float64
	var err error
	for begun := time.Now(); err == nil && (len(times) == 0 || time.Since(begun) < length); time.Sleep(2 * time.Millisecond) {
		from := time.Now()
		var unlock func() error
		if unlock, err = p.visitor.Lock(ctx, p.names[0]); err == nil {
			times = append(times, float64(time.Since(from))/float64(time.Microsecond))
			err = unlock()
		}
	}
	if err := errors.Join(err, <-home); err != nil {
		return nil, err
	}
	return quantiles(times), nil
}
