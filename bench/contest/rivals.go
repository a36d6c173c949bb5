package contest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// Rivals is n clients, each as a process of its own would have one, that all want
// the same name.
func Rivals(n int) Work {
	return Work{
		Name:  "rivals",
		Does:  fmt.Sprintf("lock and unlock, %d clients, all want one name", n),
		Units: []Unit{{Name: "locks/s"}},
		Begin: func(ctx context.Context, c Contender) (Rounds, error) {
			var r rivals
			for range n {
				locker, err := c.Open(ctx)
				if err != nil {
					return nil, errors.Join(err, r.Close())
				}
				r = append(r, locker)
			}
			return r, nil
		},
	}
}

type rivals []Locker

func (r rivals) Close() error {
	var errs []error
	for _, l := range r {
		errs = append(errs, l.Close())
	}
	return errors.Join(errs...)
}

func (r rivals) Round(ctx context.Context, length time.Duration) ([]float64, error) {
	var turns atomic.Int64
	errs := make([]error, len(r))
	begun := time.Now()
	var group sync.WaitGroup
	for i, l := range r {
		group.Go(func() {
			for time.Since(begun) < length && errs[i] == nil {
				errs[i] = turn(ctx, l, "bench/rivals")
				turns.Add(1)
			}
		})
	}
	group.Wait() // whoever still waits then has its turn: it counts too
	return []float64{float64(turns.Load()) / time.Since(begun).Seconds()}, errors.Join(errs...)
}
