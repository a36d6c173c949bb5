//go:build !race

package pawl

import (
	"testing"

	"github.com/pawl-go/pawl/memlock"
)

// countKinds is what an observer for metrics does at least.
type countKinds struct{ n [kinds]int }

func (o *countKinds) Observe(e Event) { o.n[e.Kind]++ }
func (*countKinds) Direct()           {}

func TestNoRaceADirectObserverCostsNoAllocation(t *testing.T) {
	measure := func(opts ...Option) float64 {
		c := New(memlock.New(), opts...)
		defer c.Close()
		m := c.Mutex("a")
		return testing.AllocsPerRun(1000, func() {
			l, err := m.Lock(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			l.Unlock()
		})
	}
	none, with := measure(), measure(WithObserver(&countKinds{}))
	if none != with {
		t.Errorf("%v allocations without an observer, %v with one", none, with)
	}
}

func BenchmarkLockUnlockObserved(b *testing.B) {
	for name, opts := range map[string][]Option{
		"none":   nil,
		"direct": {WithObserver(&countKinds{})},
		"queued": {WithObserver(ObserverFunc(func(Event) {}))},
	} {
		b.Run(name, func(b *testing.B) {
			c := New(memlock.New(), opts...)
			defer c.Close()
			m := c.Mutex("a")
			b.ReportAllocs()
			for b.Loop() {
				l, err := m.Lock(b.Context())
				if err != nil {
					b.Fatal(err)
				}
				l.Unlock()
			}
		})
	}
}
