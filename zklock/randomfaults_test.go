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

// A faultyClient is one client behind a faulty proxy.
type faultyClient struct {
	client *pawl.Client
	proxy  *faultproxy.Proxy
	rnd    *rand.Rand
}

// lockRepeatedly takes the lock again and again: some wait as long as it takes, some give up
// soon, some only try.
func (s *faultyClient) lockRepeatedly(ctx context.Context, a *exclusionTest) {
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
		a.acquired(l)
		time.Sleep(time.Duration(s.rnd.Int64N(int64(time.Millisecond))))
		a.released(l)
		if err := l.Unlock(); err != nil && !errors.Is(err, pawl.ErrLost) && !errors.Is(err, pawl.ErrUnknown) {
			a.t.Errorf("Unlock: %v", err)
		}
	}
}

// injectFault has the proxy fail for a while.
func (s *faultyClient) injectFault() {
	switch s.rnd.IntN(5) {
	case 0:
		s.proxy.Reset()
	case 1:
		s.proxy.SwallowReplies(1+s.rnd.IntN(3), faultproxy.ThenCut())
	case 2:
		s.proxy.SwallowReplies(1, faultproxy.Matching(asks(opMulti)), faultproxy.ThenCut())
	case 3:
		s.proxy.BlackHole(faultproxy.Both)
		time.Sleep(time.Duration(s.rnd.Int64N(int64(700 * time.Millisecond))))
		s.proxy.Reset()
	case 4:
		s.proxy.Delay(faultproxy.Both, time.Duration(s.rnd.Int64N(int64(5*time.Millisecond))))
		time.Sleep(50 * time.Millisecond)
	}
	time.Sleep(20 * time.Millisecond)
	s.proxy.Heal()
}

// A truncated connection ends after a number of bytes from the server, in the middle of a
// frame as likely as not.
type truncated struct {
	net.Conn
	left int
}

func (c *truncated) Read(b []byte) (int, error) {
	if c.left == 0 {
		c.Close()
		return 0, io.ErrUnexpectedEOF
	}
	n, err := c.Conn.Read(b[:min(len(b), c.left)])
	c.left -= n
	return n, err
}

// truncatingDialer returns a dialer of such connections, of up to 64 KiB each.
func truncatingDialer(seed uint64) zk.Dialer {
	var mu sync.Mutex
	rnd := rand.New(rand.NewPCG(seed, 0))
	return func(network, addr string, timeout time.Duration) (net.Conn, error) {
		conn, err := net.DialTimeout(network, addr, timeout)
		if err != nil {
			return nil, err
		}
		mu.Lock()
		defer mu.Unlock()
		return &truncated{conn, 1000 + rnd.IntN(64<<10)}, nil
	}
}

// runWithFaults has clients lock for a time, while their proxies fail at random.
func runWithFaults(t *testing.T, length time.Duration) {
	const clients, ttl = 10, 2 * time.Second
	path := pathOf(t)
	a := newExclusionTest(t)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var all, injections sync.WaitGroup
	for i := range clients {
		s := &faultyClient{proxy: faultproxy.New(t, oneServer(t)), rnd: rand.New(rand.NewPCG(seed, uint64(i)))}
		s.client = pawl.New(connect(t, []string{s.proxy.Addr()}, WithPath(path), WithDialer(truncatingDialer(s.rnd.Uint64()))), pawl.WithTTL(ttl))
		t.Cleanup(s.proxy.Heal)
		all.Go(func() { s.lockRepeatedly(ctx, a) })
		faults := &faultyClient{proxy: s.proxy, rnd: rand.New(rand.NewPCG(seed, uint64(clients+i)))}
		injections.Go(func() {
			for ctx.Err() == nil {
				time.Sleep(time.Duration(faults.rnd.Int64N(int64(3 * time.Second))))
				faults.injectFault()
			}
		})
		t.Cleanup(func() {
			// A truncated connection may end within the farewell.
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
	injections.Wait()
	all.Wait()
	t.Logf("%d turns", a.turns)
	if a.turns < goalOf(length) {
		t.Errorf("only %d turns in %v", a.turns, took)
	}
	// What is given up is left behind its caller's back, or ends with its session.
	watcher := connect(t, []string{oneServer(t)}, WithPath(path))
	awaitLength(t, watcher, "arena", 0)
}

// goalOf is how many turns are expected in a time.
func goalOf(length time.Duration) int { return int(length / (100 * time.Millisecond)) }

// lasting waits for a time, and on a busy machine until the goal is reached. It
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
	runWithFaults(t, 5*time.Second)
}

// TestSoakRandomFaults injects faults for as long as PAWL_SOAK says.
func TestSoakRandomFaults(t *testing.T) {
	d, err := time.ParseDuration(os.Getenv("PAWL_SOAK"))
	if err != nil {
		t.Skip("PAWL_SOAK is not set")
	}
	runWithFaults(t, d)
}
