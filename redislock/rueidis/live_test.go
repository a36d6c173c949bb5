package rueidis

import (
	"context"
	"testing"
	"time"

	redis "github.com/redis/rueidis"

	"github.com/pawl-go/pawl/internal/faultproxy"
	"github.com/pawl-go/pawl/internal/testserver"
)

// A server that is slow to take connections must not be asked for ever more of them: it
// would only get slower, and those who ask with it.
func TestASlowServerIsNotFloodedWithConnections(t *testing.T) {
	t.Parallel()
	way := faultproxy.New(t, testserver.Redis(t).Addr())
	own, err := redis.NewClient(redis.ClientOption{InitAddress: []string{way.Addr()}, DisableCache: true, DisableRetry: true})
	if err != nil {
		t.Fatal(err)
	}
	c := newClient(own, true)
	defer c.Close()
	way.Delay(faultproxy.Both, 100*time.Millisecond)
	before := way.Connections()
	const calls = 10
	for range calls {
		ctx, cancel := context.WithTimeout(t.Context(), 160*time.Millisecond)
		if d, err := c.live(ctx); err == nil {
			d.release()
		}
		cancel()
	}
	way.Heal()
	made := way.Connections() - before
	t.Logf("%d calls made %d connections", calls, made)
	if made > 3*calls {
		t.Errorf("%d calls made %d connections", calls, made)
	}
}
