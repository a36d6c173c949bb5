package redislock_test

import (
	"context"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/internal/soaktest"
	"github.com/pawl-go/pawl/internal/testserver"
)

// Masters are killed again and again, and come back empty: some before the sentinels replace
// them, so that they empty their replicas, others while a replica is promoted that has some of
// the claims. Exclusion is lost by that, and tokens must grow nevertheless.
func TestSoakTokensGrowWhileMastersRestartEmpty(t *testing.T) {
	length := soaktest.Length(t)
	s := testserver.RedisSentinel(t)
	url := "redis-sentinel://" + strings.Join(s.Addrs(), ",") + "/" + testserver.SentinelName
	ctx, cancel := context.WithCancel(t.Context())
	var mu sync.Mutex // guards what follows
	var last uint64
	grants, back, old := 0, 0, 0
	var work sync.WaitGroup
	for range 6 {
		c := open(t, url, pawl.WithTTL(3*time.Second))
		work.Go(func() {
			for ctx.Err() == nil {
				l, err := c.Mutex("name").Lock(ctx)
				if err != nil {
					continue
				}
				mu.Lock()
				if grants++; l.Fence() <= last {
					back++
					t.Logf("token %d after %d", l.Fence(), last)
				}
				// Two masters grant at the same time, and who is told first is a matter of
				// chance. Only a grant that is older than that says that its token is.
				if l.Fence()+uint64(time.Second.Microseconds()) <= last {
					old++
				}
				last = max(last, l.Fence())
				mu.Unlock()
				select {
				case <-l.Context().Done():
				case <-time.After(rand.N(40 * time.Millisecond)):
				}
				_ = l.Unlock() // its server may be gone
			}
		})
	}
	kills := 0
	for start := time.Now(); time.Since(start) < length; kills++ {
		time.Sleep(rand.N(3 * time.Second))
		master := s.AwaitMaster()
		// The sentinels replace it after two seconds: it may be back, and serve clients, while
		// they promote a replica that has the claims of before.
		master.Kill()
		time.Sleep(time.Second + rand.N(3*time.Second))
		master.Restart()
	}
	cancel()
	work.Wait()
	t.Logf("%d masters were lost, %d grants, %d tokens that went back, %d of them by more than a second", kills, grants, back, old)
	if old > 0 {
		t.Errorf("%d tokens of %d are older than their grants", old, grants)
	}
}
