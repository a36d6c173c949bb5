package redlock_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/internal/testserver"
)

// Clients that disagree with the quorum on max-ttl or on the hosts are refused, and go on
// trying while servers restart empty, one after the other. They must not claim those:
// the quorum's own clients let every one of them vote again, without an operator.
func TestARefusedClientDoesNotClaimAServerThatComesBackEmpty(t *testing.T) {
	t.Parallel()
	f := newOwnCluster(t, 3, "max-ttl=2s")
	c := f.client(t, pawl.WithTTL(time.Second))
	unlock(t, lock(t, c, "name"))
	hosts := f.hosts()
	wrong := []string{
		strings.Replace(f.url(hosts...), "max-ttl=2s", "max-ttl=1s", 1),
		f.url(hosts[0], hosts[1], testserver.Redis(t).Addr()),
	}
	ctx, stop := context.WithCancel(t.Context())
	var refused sync.WaitGroup
	defer refused.Wait()
	defer stop()
	tries := make([]atomic.Int64, len(wrong))
	var changes atomic.Int64 // odd while a server does not run: it denies nothing
	for i, url := range wrong {
		refused.Go(func() {
			for ctx.Err() == nil {
				before := changes.Load()
				other, err := pawl.Open(ctx, url, pawl.WithTTL(time.Second))
				if err == nil {
					_, err = other.Mutex("name").TryLock(ctx)
					_ = other.Close()
				}
				settled := before%2 == 0 && before == changes.Load()
				if settled && ctx.Err() == nil && (!errors.Is(err, pawl.ErrDenied) || errors.Is(err, pawl.ErrUnreachable)) {
					t.Errorf("%s: %v, want ErrDenied alone", url, err)
					stop()
				}
				tries[i].Add(1)
			}
		})
	}
	for i := range f.servers {
		changes.Add(1)
		f.servers[i].Kill()
		f.servers[i].Restart()
		changes.Add(1)
		for k := range tries { // each comes first to a server that is empty
			n := tries[k].Load()
			until(t, 30*time.Second, "tried again", func() bool { return ctx.Err() != nil || tries[k].Load() > n+1 })
		}
		until(t, 30*time.Second, "voting again", func() bool {
			lease, err := c.Mutex("name").TryLock(t.Context())
			if err == nil {
				unlock(t, lease)
			}
			return f.votes(t, i)
		})
	}
	unlock(t, lock(t, c, "name"))
}
