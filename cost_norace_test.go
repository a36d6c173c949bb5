//go:build !race

package pawl

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/pawl-go/pawl/memlock"
)

func heapInUse() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// Ten thousand held locks cost one goroutine, at most 1.5 KiB of heap each with
// all that the memory engine keeps of them, and nothing that grows with them per
// beat.
func TestNoRaceTenThousandHeldLocksAreCheap(t *testing.T) {
	const locks = 10_000
	c := New(memlock.New(), WithTTL(time.Hour))
	defer c.Close()
	must(t)(c.Mutex("warm").Lock(t.Context()))
	names := make([]string, locks)
	for i := range names {
		names[i] = fmt.Sprintf("orders/%d", i)
	}
	leases := make([]*Lease, locks)
	goroutines, before := runtime.NumGoroutine(), heapInUse()
	for i, name := range names {
		leases[i] = must(t)(c.Mutex(name).Lock(context.Background()))
	}
	s := leases[0].cl.s
	beat := func() {
		s.mu.Lock()
		s.schedule.round = 0 // a round of all
		b := s.newBeatLocked(s.c.now())
		s.mu.Unlock()
		s.beat(b)
	}
	beat()
	each := float64(heapInUse()-before) / locks
	more := runtime.NumGoroutine() - goroutines
	perBeat := testing.AllocsPerRun(20, beat)
	t.Logf("%d held locks: %.0f bytes of heap each, %d more goroutines, %.0f allocations per beat for all of them", locks, each, more, perBeat)
	if each > 1536 {
		t.Errorf("%.0f bytes each, at most 1536", each)
	}
	if more > 0 { // the session's keeper was there already
		t.Errorf("%d more goroutines", more)
	}
	if perBeat > 100 {
		t.Errorf("%.0f allocations per beat: they grow with the locks", perBeat)
	}
	runtime.KeepAlive(leases)
}

func BenchmarkLockUnlock(b *testing.B) {
	c := New(memlock.New())
	defer c.Close()
	m := c.Mutex("a")
	b.ReportAllocs()
	for b.Loop() {
		l, err := m.Lock(context.Background())
		if err != nil {
			b.Fatal(err)
		}
		l.Unlock()
	}
}

func BenchmarkGate64(b *testing.B) {
	c := New(memlock.New())
	defer c.Close()
	m := c.Mutex("a")
	b.SetParallelism(32)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			l, err := m.Lock(context.Background())
			if err != nil {
				b.Error(err)
				return
			}
			l.Unlock()
		}
	})
}
