package etcdlock

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/internal/testserver"
)

// moveLeader moves the lead to the next member, and reports whether that worked.
func moveLeader(t testing.TB, c *testserver.EtcdCluster) bool {
	t.Helper()
	from := c.Leader()
	to := (from + 1) % len(c.Members)
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	next, err := dial(t, addrsOf(c, to)).Status(ctx, c.Members[to].Addr())
	if err == nil {
		_, err = dial(t, addrsOf(c, from)).MoveLeader(ctx, next.Header.MemberId)
	}
	if err != nil {
		t.Logf("moving the leader from member %d to %d: %v", from, to, err)
	}
	return err == nil
}

// A leader that hands over drops the proposals of that moment. They are repeated, and no
// caller sees an error.
func TestNoLockFailsWhenTheLeaderMoves(t *testing.T) {
	t.Parallel()
	const workers, moves = 16, 40
	c := testserver.NewEtcds(t, 3, nil)
	clients := make([]*pawl.Client, 4)
	for i := range clients {
		clients[i] = connectedClient(t, c.Addrs(), 30*time.Second)
	}
	ctx, stop := context.WithCancel(t.Context())
	var locks, faults atomic.Int64
	var work sync.WaitGroup
	for i := range workers {
		work.Go(func() {
			m := clients[i%len(clients)].Mutex("name/" + newID())
			for ctx.Err() == nil {
				l, err := m.Lock(ctx)
				switch {
				case err == nil:
					locks.Add(1)
					if err := l.Unlock(); err != nil && !errors.Is(err, pawl.ErrUnknown) { // awaitOwnWatch behind
						t.Errorf("Unlock: %v", err)
					}
				case ctx.Err() == nil:
					faults.Add(1)
					t.Errorf("Lock: %v", err)
				}
			}
		})
	}
	moved := 0
	for begun := time.Now(); moved < moves && time.Since(begun) < 2*clusterTimeout; {
		before := locks.Load()
		if moveLeader(t, c) {
			moved++
		}
		for locks.Load() < before+workers && time.Since(begun) < 2*clusterTimeout { // all workers continue
			time.Sleep(5 * time.Millisecond)
		}
	}
	stop()
	work.Wait()
	t.Logf("%d locks, %d faults, the leader moved %d times", locks.Load(), faults.Load(), moved)
	if moved < moves/4 {
		t.Errorf("the leader moved %d times", moved)
	}
}
