//go:build !race

package rueidis

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	redis "github.com/redis/rueidis"

	"github.com/pawl-go/pawl/internal/stalltest"
	"github.com/pawl-go/pawl/internal/testserver"
	"github.com/pawl-go/pawl/redislock/internal/redisclient"
)

// Thousands of calls wait for the server. One that is Ahead is behind those alone that
// were sent.
func TestNoRaceACallThatIsAheadWaitsBehindNoCrowd(t *testing.T) {
	const crowd = 8000
	s := testserver.Redis(t)
	stalltest.Succeeds(t, 10*time.Millisecond, func() error { // in which the server answers thousands
		connect := func() redis.Client {
			c, err := redis.NewClient(redis.ClientOption{InitAddress: []string{s.Addr()}, ForceSingleClient: true, DisableCache: true})
			if err != nil {
				t.Fatal(err)
			}
			return c
		}
		operator := connect()
		defer operator.Close()
		say := func(words ...string) {
			if err := operator.Do(t.Context(), operator.B().Arbitrary(words...).Build()).Error(); err != nil {
				t.Fatal(err)
			}
		}
		cl := newClient(connect(), true)
		defer cl.Close()
		say("CLIENT", "PAUSE", "60000", "WRITE")
		call := redisclient.Command("INCR", "place")
		var begun atomic.Int64
		var all sync.WaitGroup
		for range crowd {
			all.Go(func() {
				begun.Add(1)
				_, _ = cl.Do(t.Context(), call)
			})
		}
		for begun.Load() < crowd || len(cl.crowd) < maxCrowd {
			time.Sleep(time.Millisecond)
		}
		var place redisclient.Reply
		var err error
		ahead := call
		ahead.Ahead = true
		asks := make(chan struct{})
		all.Go(func() {
			close(asks)
			place, err = cl.Do(t.Context(), ahead)
		})
		<-asks
		say("CLIENT", "UNPAUSE")
		all.Wait()
		say("DEL", "place")
		t.Logf("it was call %d of %d", place.Int, crowd+1)
		if err == nil && place.Int > crowd/2 {
			err = fmt.Errorf("call %d of %d", place.Int, crowd+1)
		}
		return err
	})
}
