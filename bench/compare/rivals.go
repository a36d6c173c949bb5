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
// the same name. The servers' processor time is counted too.
func Rivals(n int, servers ...int) Work {
	return Work{
		Name:  "rivals",
		Does:  fmt.Sprintf("lock and unlock, %d clients, all want one name", n),
		Units: append([]Unit{{Name: "locks/s"}}, meterUnits()...),
		Begin: func(ctx context.Context, c Contender) (Rounds, error) {
			r := &rivals{servers: servers}
			for range n {
				locker, err := c.Open(ctx)
				if err != nil {
					return nil, errors.Join(err, r.Close())
				}
				r.lockers = append(r.lockers, locker)
			}
			return r, nil
		},
	}
}

type rivals struct {
	lockers []Locker
	servers []int // by process id
}

func (r *rivals) Close() error {
	var errs []error
	for _, l := range r.lockers {
		errs = append(errs, l.Close())
	}
	return errors.Join(errs...)
}

func (r *rivals) Round(ctx context.Context, length time.Duration) ([]float64, error) {
	var turns atomic.Int64
	errs := make([]error, len(r.lockers))
	m := startMeter(r.servers)
	begun := time.Now()
	var group sync.WaitGroup
	for i, l := range r.lockers {
		group.Go(func() {
			for time.Since(begun) < length && errs[i] == nil {
				errs[i] = turn(ctx, l, "bench/rivals")
				turns.Add(1)
			}
		})
	}
	group.Wait() // whoever still waits then has its turn: it counts too
	rate := float64(turns.Load()) / time.Since(begun).Seconds()
	return append([]float64{rate}, m.figures(int(turns.Load()))...), errors.Join(errs...)
}
