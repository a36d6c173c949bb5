package compare

import (
	"context"
	"time"
)

// Commands measures a program that runs another under a lock, from start to end.
// Its contenders are Timers.
func Commands(name, does string) Work {
	return Work{
		Name:  name,
		Does:  does,
		Units: []Unit{{Name: "p50-µs", Fewer: true}, {Name: "p99-µs", Fewer: true}},
		Begin: func(ctx context.Context, c Contender) (Rounds, error) {
			l, err := c.Open(ctx)
			if err != nil {
				return nil, err
			}
			return &runner{l, l.(Timer)}, nil
		},
	}
}

type runner struct {
	Locker
	timer Timer
}

func (r *runner) Round(ctx context.Context, length time.Duration) ([]float64, error) {
	var times []float64
	for begun := time.Now(); len(times) == 0 || time.Since(begun) < length; {
		took, err := r.timer.Time(ctx, 0)
		if err != nil {
			return nil, err
		}
		times = append(times, float64(took)/float64(time.Microsecond))
	}
	return quantiles(times), nil
}
