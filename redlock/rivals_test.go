package redlock_test

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
)

const rivalHold = 2 * time.Millisecond

// A rival is a client that takes a name again and again.
type rival struct {
	client *pawl.Client
	write  bool
	holds  int
	wait   time.Duration // the longest until it had the name
}

// rivals opens clients, each as a process of its own would, the first of them writers.
func (f *cluster) rivals(t *testing.T, writers, readers int) (all []*rival) {
	for i := range writers + readers {
		all = append(all, &rival{client: f.client(t, pawl.WithTTL(6*time.Second)), write: i < writers})
	}
	return all
}

// compete lets rivals take a name, hold it and give it back until the time is over. Who
// waits then is waited for.
func compete(t *testing.T, all []*rival, name string, length time.Duration) (holds int) {
	ctx, cancel := context.WithTimeout(t.Context(), length+time.Minute)
	defer cancel()
	for _, r := range all {
		r.holds, r.wait = 0, 0
	}
	end := time.Now().Add(length)
	var wg sync.WaitGroup
	for _, r := range all {
		wg.Go(func() {
			lock := r.client.RWMutex(name).RLock
			if r.write {
				lock = r.client.RWMutex(name).Lock
			}
			for time.Now().Before(end) {
				start := time.Now()
				l, err := lock(ctx)
				r.wait = max(r.wait, time.Since(start))
				if err != nil {
					t.Error(err)
					return
				}
				if time.Now().Before(end) {
					r.holds++
				}
				time.Sleep(rivalHold)
				if err := l.Unlock(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	for _, r := range all {
		holds += r.holds
	}
	return holds
}

// TestSoakRivals prints the table in docs/redlock.md; PAWL_SOAK is how long each row
// takes.
func TestSoakRivals(t *testing.T) {
	d, err := time.ParseDuration(os.Getenv("PAWL_SOAK"))
	if err != nil {
		t.Skip("PAWL_SOAK is not set")
	}
	f := newCluster(t, 5, shortMaxTTL)
	for i, n := range []struct{ writers, readers int }{{1, 0}, {5, 0}, {10, 0}, {20, 0}, {2, 14}} {
		all := f.rivals(t, n.writers, n.readers)
		name := fmt.Sprint("name", i)
		compete(t, all, name, 500*time.Millisecond) // connects
		holds := compete(t, all, name, d)
		least, wait, writes := all[0].holds, time.Duration(0), 0
		for _, r := range all {
			least, wait = min(least, r.holds), max(wait, r.wait)
			if r.write {
				writes += r.holds
			}
			_ = r.client.Close()
		}
		t.Logf("%2d writers, %2d readers: %5d holds, %5d of them writers', at least %4d each, %v the longest wait",
			n.writers, n.readers, holds, writes, least, wait.Round(time.Millisecond))
	}
}
