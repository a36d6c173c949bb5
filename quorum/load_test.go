package quorum_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/quorum"
)

func TestManyClaimsAtOnceAreNotRefusedByNodesThatAnswer(t *testing.T) {
	for _, idle := range []time.Duration{0, 3 * time.Second} { // since the nodes were last called
		t.Run(fmt.Sprint("after ", idle), func(t *testing.T) { manyClaims(t, idle) })
	}
}

func manyClaims(t *testing.T, idle time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		w := newNetwork(3, 1)
		w.delay = 5 * time.Millisecond
		e, err := quorum.New(w.client())
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		s := sessionOf(t, e, "s", 10*time.Second)
		time.Sleep(idle)
		var wg sync.WaitGroup
		var bad atomic.Int32
		var first sync.Once
		for k := range 1500 {
			wg.Go(func() {
				st, err := s.Enter(t.Context(), mutex(fmt.Sprintf("%04x", k), fmt.Sprint("name", k)))
				if err != nil || !st.Held {
					bad.Add(1)
					first.Do(func() { t.Logf("%+v, %v", st, err) })
				}
			})
		}
		wg.Wait()
		if bad.Load() > 0 {
			t.Errorf("%d of 1500 claims on free names were refused by three healthy nodes", bad.Load())
		}
	})
}

func TestABeatIsNotRefusedBecauseManyClaimsAreInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newNetwork(3, 1)
		w.delay = 20 * time.Millisecond
		e, err := quorum.New(w.client())
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		s := sessionOf(t, e, "s", 10*time.Second)
		held := mutex("ff", "held")
		if st, err := s.Enter(t.Context(), held); err != nil || !st.Held {
			t.Fatal(st, err)
		}
		var wg sync.WaitGroup
		for k := range 1500 {
			wg.Go(func() { _, _ = s.Enter(t.Context(), mutex(fmt.Sprintf("%04x", k), fmt.Sprint("name", k))) })
		}
		synctest.Wait()
		out := make([]driver.Standing, 1)
		if err := s.Beat(t.Context(), []driver.Claim{held}, out); err != nil || out[0].Valid == 0 {
			t.Errorf("three healthy nodes: %+v, %v", out[0], err)
		}
		wg.Wait()
	})
}
