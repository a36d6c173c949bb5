package compare

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// TogetherSpread is the unit of Together for how evenly the locks were distributed.
const TogetherSpread = 2

// Together measures n goroutines of one process that contend for the same name.
func Together(n int) Work {
	return Work{
		Name:  "together",
		Does:  fmt.Sprintf("lock and unlock, %d goroutines of one process, all want one name", n),
		Units: []Unit{{Name: "locks/s"}, {Name: "fewest-turns"}, {Name: "most/fewest", Fewer: true}},
		Begin: func(ctx context.Context, c Contender) (Rounds, error) {
			locker, err := c.Open(ctx)
			if err != nil {
				return nil, err
			}
			return &sameNameWorkers{workers{locker: locker, names: slices.Repeat([]string{"bench/together"}, n)}}, nil
		},
	}
}

// sameNameWorkers are workers that all use the same name.
type sameNameWorkers struct{ workers }

func (t *sameNameWorkers) Round(ctx context.Context, length time.Duration) ([]float64, error) {
	turns, took, err := t.run(ctx, length)
	if err != nil {
		return nil, err
	}
	total := 0
	for _, n := range turns {
		total += n
	}
	fewest, most := float64(slices.Min(turns)), float64(slices.Max(turns))
	return []float64{float64(total) / took.Seconds(), fewest, most / max(fewest, 1)}, nil
}
