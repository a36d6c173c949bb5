//go:build !race

package goredis

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	redis "github.com/redis/go-redis/v9"

	"github.com/pawl-go/pawl/internal/stalltest"
	"github.com/pawl-go/pawl/internal/testserver"
	"github.com/pawl-go/pawl/redislock/internal/redisclient"
)

// Thousands of calls wait for the server. One that is Ahead is behind those alone that were
// sent, 256 on each of six connections.
func TestNoRaceACallThatIsAheadWaitsBehindNoCrowd(t *testing.T) {
	const crowd = 8000
	s := testserver.Redis(t)
	stalltest.Succeeds(t, silentAfter/2, func() error {
		c := redis.NewClient(&redis.Options{Addr: s.Addr(), ReadTimeout: time.Minute, PoolSize: 8})
		operator := redis.NewClient(&redis.Options{Addr: s.Addr()})
		defer operator.Close()
		defer c.Close()
		cl := newClient(c)
		defer cl.Close()
		if err := operator.Do(t.Context(), "CLIENT", "PAUSE", "60000", "WRITE").Err(); err != nil {
			t.Fatal(err)
		}
		await := func(reached func(b *batcher) bool) (done bool) {
			b := cl.batcher
			for end := time.Now().Add(10 * time.Second); !done && time.Now().Before(end); time.Sleep(time.Millisecond) {
				b.mu.Lock()
				done = reached(b)
				b.mu.Unlock()
			}
			return done
		}
		// As slow as a script of a lock: what the server does while a goroutine of ours wakes is little.
		call := redisclient.Command("EVAL", "for i = 1, 20000 do end return redis.call('INCR', KEYS[1])", "1", "place")
		var all sync.WaitGroup
		for range crowd {
			all.Go(func() { _, _ = cl.Do(t.Context(), call) })
		}
		queued := await(func(b *batcher) bool { return len(b.waiting) >= crowd-b.most*maxWaiting }) // later some are sent all the same
		var place redisclient.Reply
		var err error
		ahead := call
		ahead.Ahead = true
		all.Go(func() { place, err = cl.Do(context.Background(), ahead) })
		queued = queued && await(func(b *batcher) bool { return b.ahead == 1 })
		if err := operator.Do(t.Context(), "CLIENT", "UNPAUSE").Err(); err != nil {
			t.Fatal(err)
		}
		all.Wait()
		operator.Del(t.Context(), "place")
		t.Logf("it was call %d of %d", place.Int, crowd+1)
		if err == nil && (!queued || place.Int > crowd/2) {
			err = fmt.Errorf("call %d of %d", place.Int, crowd+1)
		}
		return err
	})
}
