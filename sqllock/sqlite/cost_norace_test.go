//go:build !race && unix

package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/internal/stalltest"
)

func init() {
	roles["visitor"] = func(args []string) error { return visit(args[0]) }
	// tryonce is what "pawl run -n" does, with the times it has.
	roles["tryonce"] = func(args []string) error {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		c, err := pawl.Open(ctx, "sqlite://"+args[0])
		if err != nil {
			return err
		}
		defer c.Close()
		lease, err := c.Mutex("job").TryLock(context.Background())
		if errors.Is(err, pawl.ErrHeld) {
			return nil
		}
		if err != nil {
			return err
		}
		time.Sleep(300 * time.Millisecond) // its work
		return lease.Unlock()
	}
}

// TestNoRaceLockAndUnlockCostAtMostThreeTimesTwoUpdates compares the public API
// on a free name with two bare updates of a row by its key, on the same file,
// prepared and with the same synchronous. Both run in short turns, so that
// whatever else the machine does falls on both alike.
func TestNoRaceLockAndUnlockCostAtMostThreeTimesTwoUpdates(t *testing.T) {
	turn := turns(t)
	var ratios []float64
	for range 100 {
		locks, updates := turn()
		ratios = append(ratios, float64(locks)/float64(updates))
	}
	slices.Sort(ratios)
	median := ratios[len(ratios)/2]
	t.Logf("lock and unlock cost %.2f times two bare updates (median of %d turns; 10th to 90th percentile %.2f to %.2f)",
		median, len(ratios), ratios[len(ratios)/10], ratios[len(ratios)*9/10])
	if median > 3 {
		t.Errorf("ratio %.2f, at most 3", median)
	}
}

// turns returns a function that locks and unlocks 50 times, then makes 50 times
// two bare updates, and tells how long each took.
func turns(t testing.TB) func() (locks, updates time.Duration) {
	e := openFile(t, filepath.Join(t.TempDir(), "pawl.db"))
	c := pawl.New(e)
	t.Cleanup(func() { c.Close() })
	update, m := bareUpdates(t, e), c.Mutex("jobs/42")
	return func() (locks, updates time.Duration) {
		start := time.Now()
		for range 50 {
			lease, err := m.Lock(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			if err := lease.Unlock(); err != nil {
				t.Fatal(err)
			}
		}
		middle := time.Now()
		for range 50 {
			update()
		}
		return middle.Sub(start), time.Since(middle)
	}
}

// BenchmarkLockAndUnlock prints what the test above bounds.
func BenchmarkLockAndUnlock(b *testing.B) {
	turn := turns(b)
	var locks, updates time.Duration
	n := 0
	for b.Loop() {
		l, u := turn()
		locks, updates, n = locks+l, updates+u, n+50
	}
	b.ReportMetric(float64(locks.Nanoseconds())/float64(n), "ns/lock+unlock")
	b.ReportMetric(float64(updates.Nanoseconds())/float64(n), "ns/two-updates")
	b.ReportMetric(float64(locks)/float64(updates), "ratio")
}

// crowd has each of n goroutines lock and unlock as often as it can for d, by
// the mutexes that m gives them, and returns how often each held.
func crowd(t *testing.T, n int, d time.Duration, m func(i int) *pawl.Mutex) (total int, each []int) {
	t.Helper()
	each = make([]int, n)
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			for ctx.Err() == nil {
				lease, err := m(i).Lock(ctx)
				if err != nil {
					if ctx.Err() == nil {
						t.Error(err)
					}
					return
				}
				each[i]++
				if err := lease.Unlock(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	for _, n := range each {
		total += n
	}
	return total, each
}

// TestNoRaceTheGateIsTwentyTimesAsFastAsAClientEach, shares evenly, and still
// lets another process in.
func TestNoRaceTheGateIsTwentyTimesAsFastAsAClientEach(t *testing.T) {
	const n = 64
	path := filepath.Join(t.TempDir(), "pawl.db")
	apart := make([]*pawl.Mutex, n)
	for i := range apart {
		c := pawl.New(openFile(t, path))
		defer c.Close()
		apart[i] = c.Mutex("apart")
	}
	alone, _ := crowd(t, n, 3*time.Second, func(i int) *pawl.Mutex { return apart[i] })

	c := pawl.New(openFile(t, path))
	defer c.Close()
	m := c.Mutex("together")
	gate, each := crowd(t, n, 3*time.Second, func(int) *pawl.Mutex { return m })
	ratio := float64(gate) / float64(alone)
	spread := float64(slices.Max(each)) / float64(max(1, slices.Min(each)))
	t.Logf("%d goroutines: %d holds/s with one client each, %d holds/s with one client: %.0f times; busiest %.2f times the quietest",
		n, alone/3, gate/3, ratio, spread)
	if ratio < 20 {
		t.Errorf("%.1f times, at least 20", ratio)
	}
	if spread > 1.5 {
		t.Errorf("the busiest got %.2f times the quietest, at most 1.5", spread)
	}
}

// visit locks what a crowd in another process fights for, 300 times, and says
// how long the 99th percentile waited, without what the machine stood still.
func visit(path string) error {
	c, err := pawl.Open(context.Background(), "sqlite://"+path)
	if err != nil {
		return err
	}
	defer c.Close()
	var waits []time.Duration
	machine := stalltest.Start()
	defer machine.End()
	for range 300 {
		start, lost := time.Now(), machine.Lost()
		lease, err := c.Mutex("together").Lock(context.Background())
		if err != nil {
			return err
		}
		waits = append(waits, max(0, time.Since(start)-(machine.Lost()-lost)))
		if err := lease.Unlock(); err != nil {
			return err
		}
		time.Sleep(2 * time.Millisecond)
	}
	slices.Sort(waits)
	fmt.Println(waits[len(waits)/2].Microseconds(), waits[len(waits)*99/100].Microseconds())
	return nil
}

func TestNoRaceAnotherProcessGetsItsTurnWithin50Milliseconds(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pawl.db")
	c := pawl.New(openFile(t, path))
	defer c.Close()
	m := c.Mutex("together")
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	var wg sync.WaitGroup
	stop := make(chan struct{})
	for range 64 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				lease, err := m.Lock(ctx)
				if err != nil {
					t.Error(err)
					return
				}
				lease.Unlock()
			}
		})
	}
	defer wg.Wait()
	defer close(stop)
	stalltest.Within(t, 50*time.Millisecond, "the 99th percentile of another process against 64 goroutines", func() time.Duration {
		cmd := exec.CommandContext(ctx, os.Args[0])
		cmd.Env = append(os.Environ(), roleEnv+"=visitor "+path)
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		var p50, p99 int64
		if _, serr := fmt.Sscan(string(out), &p50, &p99); serr != nil || err != nil {
			t.Fatalf("the visitor said %q: %v, %v", out, serr, err)
		}
		t.Logf("another process waited %v (median) and %v (99th percentile)",
			time.Duration(p50)*time.Microsecond, time.Duration(p99)*time.Microsecond)
		return time.Duration(p99) * time.Microsecond
	})
}

// Their attempts at the file must not take the processors from the one that has it.
func TestNoRaceTwoHundredProcessesThatTryAtOnceAreAllAnswered(t *testing.T) {
	const processes = 200
	path := filepath.Join(t.TempDir(), "pawl.db")
	var wg sync.WaitGroup
	var failed atomic.Int64
	begun := time.Now()
	for range processes {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), roleEnv+"=tryonce "+path)
		wg.Go(func() {
			if out, err := cmd.CombinedOutput(); err != nil && failed.Add(1) == 1 {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
	wg.Wait()
	t.Logf("%d processes in %v", processes, time.Since(begun))
	if n := failed.Load(); n > 0 {
		t.Errorf("%d of %d had no answer", n, processes)
	}
}
