package zklock

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/internal/faultproxy"
)

// Cuts that outlast a TTL but not the connection's ZooKeeper session end pawl's
// sessions and not their nodes: whatever was under way then, nothing may stay when
// Close has said that all is given back.
//
// It cuts for as long as PAWL_SOAK says.
func TestSoakCutsOfTheUsersConnectionLeaveNothing(t *testing.T) {
	length, err := time.ParseDuration(os.Getenv("PAWL_SOAK"))
	if err != nil {
		t.Skip("PAWL_SOAK is not set")
	}
	const timeout, callers = 3 * time.Second, 12
	path := pathOf(t)
	p := faultproxy.New(t, oneServer(t))
	t.Cleanup(p.Heal)
	hook := NewHook()
	conn := user(t, p.Addr(), timeout, hook)
	e, err := New(conn, hook, WithPath(path))
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	direct := connect(t, []string{oneServer(t)}, WithPath(path))
	c := pawl.New(e, pawl.WithTTL(timeout*3/4))
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	var turns atomic.Int64
	for i := range callers {
		rnd := rand.New(rand.NewPCG(rand.Uint64(), uint64(i)))
		all.Go(func() {
			for ctx.Err() == nil {
				wait, done := context.WithTimeout(ctx, time.Duration(rnd.Int64N(int64(timeout))))
				var l *pawl.Lease
				var err error
				switch name := fmt.Sprintf("job/%d", rnd.IntN(3)); rnd.IntN(3) {
				case 0:
					l, err = c.Mutex(name).TryLock(wait)
				case 1:
					l, err = c.Mutex(name).Lock(wait)
				default:
					l, err = c.Semaphore(name+"/s", 3).Acquire(wait, 1)
				}
				done()
				if err == nil {
					turns.Add(1)
					time.Sleep(time.Duration(rnd.Int64N(int64(5 * time.Millisecond))))
					_ = l.Unlock() // lost or unknown, some of them
				}
			}
		})
	}
	cuts := 0
	for begun := time.Now(); time.Since(begun) < length; cuts++ {
		time.Sleep(time.Duration(rand.Int64N(int64(100 * time.Millisecond))))
		switch rand.IntN(4) {
		case 0:
			p.BlackHole(faultproxy.Both)
		case 1:
			p.SwallowReplies(1+rand.IntN(3), faultproxy.ThenCut())
		default:
			p.Refuse()
			p.Reset()
		}
		time.Sleep(timeout/2 + time.Duration(rand.Int64N(int64(timeout*9/20))))
		p.Reset()
		p.Heal()
	}
	cancel()
	all.Wait()
	t.Logf("%d cuts, %d turns", cuts, turns.Load())
	if err := c.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	if err := e.Close(); err != nil {
		t.Errorf("the engine's Close: %v", err)
	}
	if left := listed(t, direct, ""); len(left) > 0 {
		t.Errorf("%d claims stand after Close: %+v", len(left), left)
	}
}
