package zklock

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/internal/faultproxy"
)

// A sailor is one client in a storm, and its way to the server.
type sailor struct {
	client *pawl.Client
	way    *faultproxy.Proxy
	rnd    *rand.Rand
}

// sail takes the lock again and again: some wait as long as it takes, some give up
// soon, some only try.
func (s *sailor) sail(ctx context.Context, a *arena) {
	m := s.client.Mutex("arena")
	for ctx.Err() == nil {
		wait, cancel := ctx, context.CancelFunc(func() {})
		var l *pawl.Lease
		var err error
		switch s.rnd.IntN(8) {
		case 0:
			l, err = m.TryLock(wait)
		case 1:
			wait, cancel = context.WithTimeout(ctx, time.Duration(s.rnd.Int64N(int64(30*time.Millisecond))))
			fallthrough
		default:
			l, err = m.Lock(wait)
		}
		cancel()
		if err != nil {
			continue // the lock is held, or the server cannot be reached, or it has waited enough
		}
		a.enter(l)
		time.Sleep(time.Duration(s.rnd.Int64N(int64(time.Millisecond))))
		a.exit(l)
		if err := l.Unlock(); err != nil && !errors.Is(err, pawl.ErrLost) && !errors.Is(err, pawl.ErrUnknown) {
			a.t.Errorf("Unlock: %v", err)
		}
	}
}

// strike does something to the way, and makes it good again.
func (s *sailor) strike() {
	switch s.rnd.IntN(5) {
	case 0:
		s.way.Reset()
	case 1:
		s.way.SwallowReplies(1+s.rnd.IntN(3), faultproxy.ThenCut())
	case 2:
		s.way.SwallowReplies(1, faultproxy.Matching(asks(opMulti)), faultproxy.ThenCut())
	case 3:
		s.way.BlackHole(faultproxy.Both)
		time.Sleep(time.Duration(s.rnd.Int64N(int64(700 * time.Millisecond))))
		s.way.Reset()
	case 4:
		s.way.Delay(faultproxy.Both, time.Duration(s.rnd.Int64N(int64(5*time.Millisecond))))
		time.Sleep(50 * time.Millisecond)
	}
	time.Sleep(20 * time.Millisecond)
	s.way.Heal()
}

// A frayed connection ends after so many bytes from the server, in the middle of a
// frame as likely as not.
type frayed struct {
	net.Conn
	left int
}

func (c *frayed) Read(b []byte) (int, error) {
	if c.left == 0 {
		c.Close()
		return 0, io.ErrUnexpectedEOF
	}
	n, err := c.Conn.Read(b[:min(len(b), c.left)])
	c.left -= n
	return n, err
}

// fraying returns a dialer of such connections, of up to 64 KiB each.
func fraying(seed uint64) zk.Dialer {
	var mu sync.Mutex
	rnd := rand.New(rand.NewPCG(seed, 0))
	return func(network, addr string, timeout time.Duration) (net.Conn, error) {
		conn, err := net.DialTimeout(network, addr, timeout)
		if err != nil {
			return nil, err
		}
		mu.Lock()
		defer mu.Unlock()
		return &frayed{conn, 1000 + rnd.IntN(64<<10)}, nil
	}
}

// storm has clients sail for so long, while their ways are struck at random.
func storm(t *testing.T, length time.Duration) {
	const crew, ttl = 10, 2 * time.Second
	path := pathOf(t)
	a := newArena(t)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var all, strikes sync.WaitGroup
	for i := range crew {
		s := &sailor{way: faultproxy.New(t, one(t)), rnd: rand.New(rand.NewPCG(seed, uint64(i)))}
		s.client = pawl.New(connect(t, []string{s.way.Addr()}, WithPath(path), WithDialer(fraying(s.rnd.Uint64()))), pawl.WithTTL(ttl))
		t.Cleanup(s.way.Heal)
		all.Go(func() { s.sail(ctx, a) })
		storm := &sailor{way: s.way, rnd: rand.New(rand.NewPCG(seed, uint64(crew+i)))}
		strikes.Go(func() {
			for ctx.Err() == nil {
				time.Sleep(time.Duration(storm.rnd.Int64N(int64(3 * time.Second))))
				storm.strike()
			}
		})
		t.Cleanup(func() {
			// A frayed connection may end within the farewell.
			if err := s.client.Close(); err != nil && !errors.Is(err, pawl.ErrUnreachable) {
				t.Errorf("Close: %v", err)
			}
		})
	}
	took := lasting(length, func(goal int) bool {
		a.mu.Lock()
		defer a.mu.Unlock()
		return a.turns >= goal
	})
	cancel()
	strikes.Wait()
	all.Wait()
	t.Logf("%d turns", a.turns)
	if a.turns < goalOf(length) {
		t.Errorf("only %d turns in %v", a.turns, took)
	}
	// What is given up is left behind its caller's back, or ends with its session.
	watcher := connect(t, []string{one(t)}, WithPath(path))
	standing(t, watcher, "arena", 0)
}

// goalOf is how many turns are expected in so long.
func goalOf(length time.Duration) int { return int(length / (100 * time.Millisecond)) }

// lasting waits for so long, and on a busy machine until the goal is reached. It
// returns how long it was.
func lasting(length time.Duration, reached func(goal int) bool) time.Duration {
	begun := time.Now()
	time.Sleep(length)
	for !reached(goalOf(length)) && time.Since(begun) < length+patience {
		time.Sleep(10 * time.Millisecond)
	}
	return time.Since(begun)
}

func TestRandomFaultsOfConnections(t *testing.T) {
	t.Parallel()
	storm(t, 5*time.Second)
}

// TestSoakRandomFaults strikes for as long as PAWL_SOAK says.
func TestSoakRandomFaults(t *testing.T) {
	d, err := time.ParseDuration(os.Getenv("PAWL_SOAK"))
	if err != nil {
		t.Skip("PAWL_SOAK is not set")
	}
	storm(t, d)
}
