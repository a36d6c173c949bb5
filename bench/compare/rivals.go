package compare

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// Rivals measures n clients, each as of a separate process, that contend for the
// same name. It includes the servers' processor time.
func Rivals(n int, servers ...int) Work {
	return Work{
		Name:  "rivals",
		Does:  fmt.Sprintf("lock and unlock, %d clients, all want one name", n),
		Units: append([]Unit{{Name: "locks/s"}}, cpuUnits()...),
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
	m := startCPUMeter(r.servers)
	begun := time.Now()
	var group sync.WaitGroup
	for i, l := range r.lockers {
		group.Go(func() {
			for time.Since(begun) < length && errs[i] == nil {
				errs[i] = lockUnlock(ctx, l, "bench/rivals")
				turns.Add(1)
			}
		})
	}
	group.Wait() // clients that still wait get their turn, which counts too
	rate := float64(turns.Load()) / time.Since(begun).Seconds()
	return append([]float64{rate}, m.figures(int(turns.Load()))...), errors.Join(errs...)
}
