//go:build !race

package prom_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/memlock"
	"github.com/pawl-go/pawl/observe/prom"
)

// lockAndUnlock returns one lock and unlock of a free name in memory.
func lockAndUnlock(tb testing.TB, opts ...pawl.Option) func() {
	c := pawl.New(memlock.New(), append(opts, pawl.WithTTL(time.Hour))...)
	tb.Cleanup(func() { _ = c.Close() })
	m := c.Mutex("orders/42")
	return func() {
		l, err := m.Lock(tb.Context())
		if err == nil {
			err = l.Unlock()
		}
		if err != nil {
			tb.Fatal(err)
		}
	}
}

const (
	maxCost   = 300 * time.Nanosecond
	usualBase = 4 * time.Microsecond // what the lock and unlock takes on the machine that maxCost is for
)

// An observer adds at most 300 ns to an uncontended lock and unlock, or in proportion more where
// that itself takes longer, and no allocation. What else the machine does only adds to the
// difference, so one of a few attempts is enough.
func TestNoRaceAnObserverCostsLittle(t *testing.T) {
	none, observed := lockAndUnlock(t), lockAndUnlock(t, pawl.WithObserver(prom.New()))
	if more := testing.AllocsPerRun(1000, observed) - testing.AllocsPerRun(1000, none); more > 0 {
		t.Errorf("%v more allocations", more)
	}
	for range 5 {
		base, cost := compare(none, observed)
		limit := max(maxCost, maxCost*base/usualBase)
		t.Logf("lock and unlock takes %v, with the observer %v more, at most %v", base, cost, limit)
		if cost <= limit {
			return
		}
	}
	t.Error("the observer costs too much")
}

// With classes it also takes the time of the user's function, and no allocation either.
func TestNoRaceClassesDoNotAllocate(t *testing.T) {
	byPart := prom.WithClass(func(name string) string { class, _, _ := strings.Cut(name, "/"); return class })
	none, observed := lockAndUnlock(t), lockAndUnlock(t, pawl.WithObserver(prom.New(byPart)))
	if more := testing.AllocsPerRun(1000, observed) - testing.AllocsPerRun(1000, none); more > 0 {
		t.Errorf("%v more allocations", more)
	}
	base, cost := compare(none, observed)
	t.Logf("lock and unlock takes %v, with the observer and classes %v more", base, cost)
}

// compare returns what one call takes, and how much longer the other does. The rounds are shorter
// than the time for which a busy machine lets a thread run, and taken in turn, so most of them are
// not interrupted; their medians are compared.
func compare(one, other func()) (base, more time.Duration) {
	const rounds, calls = 2000, 100
	round := func(f func()) time.Duration {
		begun := time.Now()
		for range calls {
			f()
		}
		return time.Since(begun) / calls
	}
	var ones, others []time.Duration
	for range rounds {
		ones, others = append(ones, round(one)), append(others, round(other))
	}
	slices.Sort(ones)
	slices.Sort(others)
	return ones[rounds/2], others[rounds/2] - ones[rounds/2]
}

func BenchmarkLockUnlock(b *testing.B) {
	for name, opts := range map[string][]pawl.Option{"none": nil, "prom": {pawl.WithObserver(prom.New())}} {
		b.Run(name, func(b *testing.B) {
			f := lockAndUnlock(b, opts...)
			b.ReportAllocs()
			for b.Loop() {
				f()
			}
		})
	}
}
