//go:build !race

package zklock

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/pawl-go/pawl"
)

// A rival locks and unlocks once; it is either ours or the library's own recipe.
type rival func(ctx context.Context) error

// ours returns a rival on a client of its own.
func ours(t testing.TB, path, name string) rival {
	c := pawl.New(connect(t, []string{one(t)}, Path(path)))
	t.Cleanup(func() { c.Close() })
	return oursOf(c, name)
}

func oursOf(c *pawl.Client, name string) rival {
	m := c.Mutex(name)
	return func(ctx context.Context) error {
		lease, err := m.Lock(ctx)
		if err != nil {
			return err
		}
		return lease.Unlock()
	}
}

// theirs returns a rival by zk.Lock on a connection of its own. Its Lock knows no
// ctx: a wait ends when the one ahead leaves.
func theirs(t testing.TB, path string) rival {
	return theirsOf(theirConn(t), path)
}

func theirConn(t testing.TB) *zk.Conn {
	conn, _, err := zk.Connect([]string{one(t)}, 10*time.Second, zk.WithLogInfo(false), zk.WithLogger(silent{}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	return conn
}

func theirsOf(conn *zk.Conn, path string) rival {
	return func(context.Context) error {
		l := zk.NewLock(conn, path, zk.WorldACL(zk.PermAll))
		if err := l.Lock(); err != nil {
			return err
		}
		return l.Unlock()
	}
}

// crowd has all rivals lock and unlock for d and returns how often they did.
func crowd(t testing.TB, d time.Duration, rivals []rival) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	counts := make([]int, len(rivals))
	var wg sync.WaitGroup
	for i, r := range rivals {
		wg.Go(func() {
			for ctx.Err() == nil {
				if err := r(ctx); err != nil {
					if ctx.Err() == nil {
						t.Error(err)
					}
					return
				}
				counts[i]++
			}
		})
	}
	wg.Wait()
	total := 0
	for _, n := range counts {
		total += n
	}
	return total
}

// compare has both sides run in turns, so that whatever else the machine does
// falls on both alike, and returns the median of the ratios.
func compare(t testing.TB, turns int, d time.Duration, mine, others []rival) (ratio float64, perSecond, theirPerSecond int) {
	t.Helper()
	var ratios []float64
	var m, o int
	for range turns {
		a, b := crowd(t, d, mine), crowd(t, d, others)
		m, o = m+a, o+b
		ratios = append(ratios, float64(a)/float64(max(1, b)))
	}
	slices.Sort(ratios)
	whole := float64(turns) * d.Seconds()
	return ratios[len(ratios)/2], int(float64(m) / whole), int(float64(o) / whole)
}

func TestNoRaceAFreeLockIsFasterThanTheLibrarysOwn(t *testing.T) {
	path := pathOf(t)
	mine, others := []rival{ours(t, path, "free")}, []rival{theirs(t, path+"/theirs")}
	compare(t, 1, time.Second, mine, others) // the server compiles what is used
	ratio, m, o := compare(t, 15, 300*time.Millisecond, mine, others)
	t.Logf("lock and unlock of a free name: %d/s, zk.Lock %d/s: %.2f times", m, o, ratio)
	if ratio < 1.05 {
		t.Errorf("%.2f times zk.Lock, at least 1.05", ratio)
	}
}

func TestNoRaceSixteenClientsHandOverFasterThanTheLibrarysOwn(t *testing.T) {
	const n = 16
	path := pathOf(t)
	var mine, others []rival
	for range n {
		mine = append(mine, ours(t, path, "busy"))
		others = append(others, theirs(t, path+"/theirs"))
	}
	compare(t, 1, time.Second, mine, others)
	ratio, m, o := compare(t, 9, time.Second, mine, others)
	t.Logf("%d clients on one name: %d/s, zk.Lock %d/s: %.2f times", n, m, o, ratio)
	if ratio < 1.5 {
		t.Errorf("%.2f times zk.Lock, at least 1.5", ratio)
	}
}

func TestNoRaceSixtyFourGoroutinesOfOneProcessHandOverWithinIt(t *testing.T) {
	const n = 64
	path := pathOf(t)
	c := pawl.New(connect(t, []string{one(t)}, Path(path)))
	t.Cleanup(func() { c.Close() })
	conn := theirConn(t)
	var mine, others []rival
	for range n {
		mine = append(mine, oursOf(c, "within"))
		others = append(others, theirsOf(conn, path+"/theirs"))
	}
	compare(t, 1, time.Second, mine, others)
	ratio, m, o := compare(t, 3, time.Second, mine, others)
	t.Logf("%d goroutines of one process: %d/s, zk.Lock %d/s: %.0f times", n, m, o, ratio)
	if ratio < 50 {
		t.Errorf("%.1f times zk.Lock, at least 50", ratio)
	}
}
