//go:build !race

package sqllock_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// TestNoRaceAThousandWaitersDoNotSlowTheHoldersRenewal compares one beat of the
// holder with and without them.
func TestNoRaceAThousandWaitersDoNotSlowTheHoldersRenewal(t *testing.T) {
	for i := range rigs {
		if rigs[i].name == "sqlite" {
			continue
		}
		t.Run(rigs[i].name, func(t *testing.T) {
			r := rigOf(t, i)
			name := nameOf(t)
			holder, c := openSession(t, r.engine(t), time.Minute), mutex(name)
			hold(t, holder, c)
			alone := beatTime(t, holder, c)
			e := r.engine(t)
			s := openSession(t, e, time.Minute)
			ctx, cancel := context.WithCancel(t.Context())
			var wg sync.WaitGroup
			for range 1000 {
				w := mutex(name)
				st := enter(t, s, w)
				wg.Go(func() { _, _ = s.Await(ctx, w, st) }) // until ctx ends
			}
			crowded := beatTime(t, holder, c)
			cancel()
			wg.Wait()
			t.Logf("a beat of the holder takes %v alone, %v before a thousand who wait", alone, crowded)
			if crowded > 2*alone+2*time.Millisecond {
				t.Errorf("%v alone, %v before a thousand who wait", alone, crowded)
			}
			for x, err := range e.List(t.Context(), name) {
				if err == nil && x.ID == c.ID {
					_ = e.Evict(t.Context(), x)
				}
			}
			_ = s.Close(context.Background())
		})
	}
}

// beatTime is the median of a beat for one claim.
func beatTime(t *testing.T, s driver.Session, c driver.Claim) time.Duration {
	t.Helper()
	var took []time.Duration
	out := make([]driver.Standing, 1)
	for range 100 {
		begun := time.Now()
		if err := s.Beat(t.Context(), []driver.Claim{c}, out); err != nil || out[0].Valid == 0 {
			t.Fatalf("Beat: %+v, %v", out[0], err)
		}
		took = append(took, time.Since(begun))
	}
	slices.Sort(took)
	return took[len(took)/2]
}
