//go:build !race

package sqllock_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
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
			s := openSession(t, r.engine(t), time.Minute)
			ctx, cancel := context.WithCancel(t.Context())
			var wg sync.WaitGroup
			for w, st := range r.stand(t, s, name, 1000) {
				wg.Go(func() { _, _ = s.Await(ctx, w, st) }) // until ctx ends
			}
			limit, crowded := 2*alone+2*time.Millisecond, beatTime(t, holder, c)
			for n := 1; crowded > limit && n < 5; n++ { // others may have had the machine
				crowded = min(crowded, beatTime(t, holder, c))
			}
			cancel()
			wg.Wait()
			t.Logf("a beat of the holder takes %v alone, %v before a thousand waiters", alone, crowded)
			if crowded > limit {
				t.Errorf("%v alone, %v before a thousand waiters", alone, crowded)
			}
			r.exec(t, "DELETE FROM pawl_claim WHERE name = ?", name)
			r.exec(t, "DELETE FROM pawl_head WHERE name = ?", name)
		})
	}
}

// stand puts many in line for a name: most straight into the tables, since the store
// counts the rows ahead of each new claim, and the last hundred, which are returned, for real.
func (r *rig) stand(t *testing.T, s driver.Session, name string, waiters int) map[driver.Claim]driver.Standing {
	t.Helper()
	const real = 100
	token := r.number(t, "SELECT fence FROM pawl_head WHERE name = ?", name)
	var rows []string
	for range waiters - real {
		token++
		rows = append(rows, fmt.Sprintf("('%s',%d,'%s',1,'s','','',1,1,1,0,1,%d)", name, token, newID(), far))
	}
	r.exec(t, "INSERT INTO pawl_claim VALUES "+strings.Join(rows, ","))
	r.exec(t, "UPDATE pawl_head SET waiting = waiting + ?, fence = ? WHERE name = ?", len(rows), token, name)
	all := map[driver.Claim]driver.Standing{}
	for range real {
		w := mutex(name)
		all[w] = enter(t, s, w)
		if all[w].Ahead < waiters-real {
			t.Fatalf("a claim that enters behind %d stands at %+v", len(rows), all[w])
		}
	}
	return all
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

// TestNoRaceAPageOfManyNamesCostsNoMoreThanOneOfFew compares the first page of a
// list, and the line of one name, where few names follow and where many do.
func TestNoRaceAPageOfManyNamesCostsNoMoreThanOneOfFew(t *testing.T) {
	for i := range rigs {
		t.Run(rigs[i].name, func(t *testing.T) {
			r := rigOf(t, i)
			var page, line [2]time.Duration
			for n, names := range []int{1000, 40_000} {
				own, prefix := r.tables(t)
				own.fill(t, prefix, names)
				e := own.engine(t)
				page[n] = quickest(20, func() {
					for _, err := range e.List(t.Context(), "") {
						if err != nil {
							t.Fatal(err)
						}
						break
					}
				})
				line[n] = quickest(20, func() {
					if all, err := e.Line(t.Context(), "n000031"); err != nil || len(all) != 4 {
						t.Fatalf("a line of %d, %v", len(all), err)
					}
				})
			}
			t.Logf("a page takes %v of few names, %v of many; a line %v and %v", page[0], page[1], line[0], line[1])
			if page[1] > 4*page[0]+time.Millisecond {
				t.Errorf("a page takes %v of few names, %v of many", page[0], page[1])
			}
			if line[1] > 4*line[0]+time.Millisecond {
				t.Errorf("a line takes %v among few names, %v among many", line[0], line[1])
			}
		})
	}
}

// quickest is the least time of several runs: what others do on the machine makes
// the rest longer.
func quickest(runs int, run func()) time.Duration {
	least := time.Duration(1 << 62)
	for range runs {
		begun := time.Now()
		run()
		least = min(least, time.Since(begun))
	}
	return least
}
