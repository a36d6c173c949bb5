package redislock_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	goredisclient "github.com/redis/go-redis/v9"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/internal/stalltest"
	"github.com/pawl-go/pawl/internal/testserver"
	"github.com/pawl-go/pawl/redislock"
	"github.com/pawl-go/pawl/redislock/goredis"
)

// moving is a slot with many keys that is moved back and forth while mutexes, readers,
// writers and permits in it are used.
type moving struct {
	t       *testing.T
	s       *testserver.Cluster
	slot    int
	clients []*pawl.Client

	holds, lost, refused atomic.Int64
	tallies              []*tally

	mu    sync.Mutex // guards what follows
	waits []wait
}

// wait is a Lock that took long.
type wait struct {
	name        string
	begun, took time.Duration
}

const (
	movePrefix = "{slot}:" // puts all names into one slot
	moveTTL    = steady
	moveKeys   = 300 // of another program, in the same slot
	moveBatch  = 10  // as redis-cli does it
)

func newMoving(t *testing.T, library string) *moving {
	m := &moving{t: t, s: testserver.RedisCluster(t)}
	m.slot = m.s.Slot(movePrefix + "x")
	at := newConsole(t, m.s.Owner(m.slot).Addr())
	for i := range moveKeys {
		at.do("SET", fmt.Sprintf("{slot}/other/%d", i), "x")
	}
	for range 2 {
		if library == "rueidis" {
			m.clients = append(m.clients, open(t, "redis-cluster://"+strings.Join(m.s.Addrs(), ",")+"?prefix=%7Bslot%7D:", pawl.WithTTL(moveTTL)))
			continue
		}
		own := goredisclient.NewClusterClient(&goredisclient.ClusterOptions{Addrs: m.s.Addrs()})
		t.Cleanup(func() { _ = own.Close() })
		e := goredis.New(own, redislock.WithPrefix(movePrefix))
		t.Cleanup(func() { _ = e.Close() })
		c := pawl.New(e, pawl.WithTTL(moveTTL))
		t.Cleanup(func() { _ = c.Close() })
		m.clients = append(m.clients, c)
	}
	return m
}

// tally counts the units held of one name, and fails when they exceed the limit.
type tally struct {
	t     *testing.T
	name  string
	limit int

	mu   sync.Mutex // guards held
	held map[*pawl.Lease]int
}

func (y *tally) took(l *pawl.Lease, need int) {
	y.mu.Lock()
	defer y.mu.Unlock()
	sum := need
	for other, n := range y.held {
		if other.Err() == nil && l.Err() == nil {
			sum += n
		}
	}
	if sum > y.limit {
		y.t.Errorf("%s: %d units are held of %d", y.name, sum, y.limit)
	}
	y.held[l] = need
}

func (y *tally) left(l *pawl.Lease) {
	y.mu.Lock()
	defer y.mu.Unlock()
	delete(y.held, l)
}

// use takes and gives back one lock repeatedly until ctx ends.
func (m *moving) use(ctx context.Context, begun time.Time, y *tally, need int, lock func(context.Context) (*pawl.Lease, error)) {
	for ctx.Err() == nil {
		from := time.Now()
		l, err := lock(ctx)
		if took := time.Since(from); took > moveTTL/4 {
			m.mu.Lock()
			m.waits = append(m.waits, wait{y.name, from.Sub(begun), took})
			m.mu.Unlock()
		}
		switch {
		case ctx.Err() != nil && err != nil:
			return
		case err != nil:
			if m.refused.Add(1) < 3 {
				m.t.Errorf("%s: %v", y.name, err)
			}
			time.Sleep(moveTTL / 20)
			continue
		}
		m.holds.Add(1)
		y.took(l, need)
		time.Sleep(time.Millisecond)
		y.left(l)
		if err := l.Unlock(); errors.Is(err, pawl.ErrLost) {
			m.lost.Add(1)
		}
	}
}

// start starts the goroutines that use locks.
func (m *moving) start(ctx context.Context, wg *sync.WaitGroup) {
	for _, c := range m.clients { // the first call of a client is not retried
		unlock(m.t, lock(m.t, c.Mutex("first")))
	}
	begun := time.Now()
	named := func(name string, limit int) *tally {
		y := &tally{t: m.t, name: name, limit: limit, held: map[*pawl.Lease]int{}}
		m.tallies = append(m.tallies, y)
		return y
	}
	go1 := func(y *tally, need int, lock func(context.Context) (*pawl.Lease, error)) {
		wg.Go(func() { m.use(ctx, begun, y, need, lock) })
	}
	for i := range 3 {
		mutex, rw, sem := named(fmt.Sprint("mutex", i), 1), named(fmt.Sprint("rw", i), 1000), named(fmt.Sprint("permits", i), 3)
		for _, c := range m.clients {
			go1(mutex, 1, c.Mutex(mutex.name).Lock)
			go1(rw, 1, c.RWMutex(rw.name).RLock)
			go1(rw, 1, c.RWMutex(rw.name).RLock)
			go1(sem, 2, func(ctx context.Context) (*pawl.Lease, error) { return c.Semaphore(sem.name, 3).Acquire(ctx, 2) })
			go1(sem, 1, func(ctx context.Context) (*pawl.Lease, error) { return c.Semaphore(sem.name, 3).Acquire(ctx, 1) })
		}
		go1(rw, 1000, m.clients[0].RWMutex(rw.name).Lock)
	}
}

// move moves the slot to another node, some keys at a time, and returns the time it took.
func (m *moving) move() time.Duration {
	begun := time.Now()
	from, to := m.s.Owner(m.slot), m.s.Nodes[0]
	if from == to {
		to = m.s.Nodes[1]
	}
	step := m.s.BeginMove(m.slot, to)
	for len(step.Some(moveBatch)) > 0 {
		continue
	}
	step.Finish()
	return time.Since(begun)
}

// run moves the slot while more returns true, and checks the result.
func (m *moving) run(more func(moves int) bool) {
	stood := stalltest.Start()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var wg sync.WaitGroup
	m.start(ctx, &wg)
	var longest time.Duration
	var each []int64
	moves := 0
	for before := m.holds.Load(); more(moves); moves++ {
		longest = max(longest, m.move())
		time.Sleep(500 * time.Millisecond) // locks are used between the moves too
		now := m.holds.Load()
		each, before = append(each, now-before), now
	}
	time.Sleep(moveTTL)
	cancel()
	wg.Wait()
	lost := stood.End()
	worst := wait{}
	for _, w := range m.waits {
		if w.took > worst.took {
			worst = w
		}
	}
	m.t.Logf("%d moves of at most %v: %d holds, of which %d were lost, %d refusals; the longest wait was %v for %s, %v after the start; holds by move %v",
		moves, longest.Round(time.Millisecond), m.holds.Load(), m.lost.Load(), m.refused.Load(), worst.took.Round(time.Millisecond), worst.name, worst.begun.Round(time.Millisecond), each)
	if limit := longest + moveTTL + lost + time.Second; worst.took > limit {
		m.t.Errorf("%s was waited for for %v, longer than a move and a TTL (%v)", worst.name, worst.took, limit)
	}
	m.nothingIsLeft()
}

// nothingIsLeft checks that no hold and no place in a line was left behind.
func (m *moving) nothingIsLeft() {
	c := m.clients[0]
	for _, y := range m.tallies {
		ctx, cancel := context.WithTimeout(context.Background(), 2*moveTTL)
		var l *pawl.Lease
		var err error
		switch y.limit {
		case 1:
			l, err = c.Mutex(y.name).Lock(ctx)
		case 3:
			l, err = c.Semaphore(y.name, 3).Acquire(ctx, 3)
		default:
			l, err = c.RWMutex(y.name).Lock(ctx)
		}
		cancel()
		if err != nil {
			m.t.Errorf("%s, which no client holds: %v", y.name, err)
			for _, key := range []string{"{slot}:" + y.name} {
				at := newConsole(m.t, m.s.Owner(m.slot).Addr())
				m.t.Logf("%q is %q", key, at.do("GET", key))
			}
			continue
		}
		unlock(m.t, l)
	}
}

// A slot with many keys is moved while its names are in use: scripts are refused, and would
// be interrupted if they touched a key that does not exist.
func TestNoClaimIsLeftBehindAfterSlotsWereMoved(t *testing.T) {
	t.Parallel()
	for _, library := range []string{"rueidis", "go-redis"} {
		t.Run(library, func(t *testing.T) {
			t.Parallel()
			newMoving(t, library).run(func(moves int) bool { return moves < 6 })
		})
	}
}

// TestSoakSlotsAreMovedBackAndForth moves a slot thirty times, and for as long as PAWL_SOAK
// says.
func TestSoakSlotsAreMovedBackAndForth(t *testing.T) {
	d, err := time.ParseDuration(os.Getenv("PAWL_SOAK"))
	if err != nil {
		t.Skip("PAWL_SOAK is not set")
	}
	end := time.Now().Add(d)
	newMoving(t, "rueidis").run(func(moves int) bool { return moves < 30 || time.Now().Before(end) })
}
