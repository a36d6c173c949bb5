package goredis

import (
	"context"
	"sync/atomic"

	redis "github.com/redis/go-redis/v9"

	"github.com/pawl-go/pawl/driverkit"
)

// sentinels makes a client from NewFailoverClient leave a sentinel that hangs. go-redis asks
// it again for every connection, MaxRetries times with a ReadTimeout each and all of that
// twice, before it asks another one; but a context that ends earlier ends that too, and
// those of pawl's calls do, every time. So after a call without an answer one connection
// is made whose context does not end.
type sentinels struct {
	dial   func(ctx context.Context) error // nil: there are no sentinels
	pool   *driverkit.Pool
	asking atomic.Bool
}

// failoverAddr is what go-redis has for the address of a client that asks sentinels.
const failoverAddr = "FailoverClient"

func newSentinels(c redis.UniversalClient, pool *driverkit.Pool) *sentinels {
	s := &sentinels{pool: pool}
	one, ok := c.(*redis.Client)
	if !ok || one.Options().Addr != failoverAddr {
		return s
	}
	s.dial = func(ctx context.Context) error {
		conn, err := one.Options().Dialer(ctx, "tcp", failoverAddr)
		if err != nil {
			return err
		}
		return conn.Close()
	}
	return s
}

// unanswered says that a call had no answer.
func (s *sentinels) unanswered() {
	if s.dial == nil || !s.asking.CompareAndSwap(false, true) {
		return
	}
	s.pool.Do(func() { // ends by the client's timeouts; Close waits for it
		defer s.asking.Store(false)
		_ = s.dial(context.Background()) // what matters is which sentinel the client has then
	})
}
