package contest

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Visitor is a client that wants a name now and then which n goroutines of another
// client want all the time. The time is that of its wait.
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
			return &party{crowd{locker: home, names: names}, guest}, nil
		},
	}
}

// A party is a crowd, and somebody who is not of it.
type party struct {
	crowd
	guest Locker
}

func (p *party) Close() error { return errors.Join(p.crowd.Close(), p.guest.Close()) }

func (p *party) Round(ctx context.Context, length time.Duration) ([]float64, error) {
	home := make(chan error, 1)
	go func() { // ends soon after the length; waited for below
		_, _, err := p.run(ctx, length)
		home <- err
	}()
	var times []float64
	var err error
	for begun := time.Now(); err == nil && (len(times) == 0 || time.Since(begun) < length); time.Sleep(2 * time.Millisecond) {
		from := time.Now()
		var unlock func() error
		if unlock, err = p.guest.Lock(ctx, p.names[0]); err == nil {
			times = append(times, float64(time.Since(from))/float64(time.Microsecond))
			err = unlock()
		}
	}
	if err := errors.Join(err, <-home); err != nil {
		return nil, err
	}
	return quantiles(times), nil
}
