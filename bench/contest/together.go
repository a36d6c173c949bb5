package contest

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// Together is n goroutines of one process that all want the same name.
func Together(n int) Work {
	return Work{
		Name:  "together",
		Does:  fmt.Sprintf("lock and unlock, %d goroutines of one process, all want one name", n),
		Units: []Unit{{Name: "locks/s"}, {Name: "fewest-turns"}},
		Begin: func(ctx context.Context, c Contender) (Rounds, error) {
			locker, err := c.Open(ctx)
			if err != nil {
				return nil, err
			}
			return &throng{crowd{locker: locker, names: slices.Repeat([]string{"bench/together"}, n)}}, nil
		},
	}
}

// A throng is a crowd of which all want the same.
type throng struct{ crowd }

func (t *throng) Round(ctx context.Context, length time.Duration) ([]float64, error) {
	turns, took, err := t.run(ctx, length)
	if err != nil {
		return nil, err
	}
	total := 0
	for _, n := range turns {
		total += n
	}
	return []float64{float64(total) / took.Seconds(), float64(slices.Min(turns))}, nil
}
