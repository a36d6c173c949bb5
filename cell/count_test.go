package cell_test

import (
	"context"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/cell"
	"github.com/pawl-go/pawl/internal/recipetest"
)

// whole is as many updates as 64 callers must make without losing one.
const whole = 64 * 157

func TestManyClientsUpdateOneCellAndNoUpdateIsLost(t *testing.T) {
	t.Parallel()
	recipetest.EachWithRecords(t, func(t *testing.T, open recipetest.Opener) { count(t, open, 8, time.Second) })
}

func TestSoakTenThousandUpdatesOfSixtyFourAreExact(t *testing.T) {
	d, err := time.ParseDuration(os.Getenv("PAWL_SOAK"))
	if err != nil {
		t.Skip("PAWL_SOAK is not set")
	}
	recipetest.EachWithRecords(t, func(t *testing.T, open recipetest.Opener) { count(t, open, 64, d) })
}

// count has 64 callers, on the given number of clients, add one to a cell, each at least
// once: ten thousand times in all, or until d has passed.
func count(t *testing.T, open recipetest.Opener, clients int, d time.Duration) {
	ctx, cancel := context.WithTimeout(t.Context(), d+2*time.Minute)
	defer cancel()
	own := make([]*pawl.Client, clients)
	for i := range own {
		own[i] = open(t)
	}
	var all sync.WaitGroup
	var begun, made, attempts, longest atomic.Int64
	began := time.Now()
	for i := range 64 {
		all.Go(func() {
			for n := 0; begun.Add(1) <= whole && (n == 0 || time.Since(began) < d); n++ {
				asked := time.Now()
				if _, err := cell.Update(ctx, own[i%clients], "n", func(n int) (int, error) { attempts.Add(1); return n + 1, nil }); err != nil {
					t.Error(err)
					return
				}
				made.Add(1)
				for took := int64(time.Since(asked)); ; { // the largest of all
					if old := longest.Load(); took <= old || longest.CompareAndSwap(old, took) {
						break
					}
				}
			}
		})
	}
	all.Wait()
	t.Logf("%d updates by %d attempts in %v, the longest took %v", made.Load(), attempts.Load(),
		time.Since(began).Round(time.Millisecond), time.Duration(longest.Load()).Round(time.Millisecond))
	if n, _, err := cell.Load[int64](ctx, own[0], "n"); err != nil || n != made.Load() {
		t.Errorf("%d updates have come to %d, %v", made.Load(), n, err)
	}
	for e, err := range own[0].List(ctx, "") {
		t.Errorf("%s is still in line, %v", e.Name, err)
	}
}
