// Package goredis makes pawl's Redis engine of a go-redis client.
//
// It uses the connections of the client it is given, as the client's options say, with
// two exceptions, however the client is configured: it repeats no command whose outcome
// is unknown, and a call returns when its ctx ends. The calls of many goroutines are sent
// in few pipelines; hooks of the client see those. While a call has no reply for long, the
// client's idle connections are sent a PING, and those that do not answer leave its pool.
package goredis

import (
	"fmt"

	redis "github.com/redis/go-redis/v9"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/redislock"
	"github.com/pawl-go/pawl/redislock/internal/redisengine"
)

// New returns an engine on a client the program already has, which stays open:
// *redis.Client (also from NewFailoverClient) or *redis.ClusterClient. A client of
// another kind, such as a Ring, spreads the keys of one lock over servers that do not
// know each other: such an engine answers driver.ErrUnsupported.
func New(c redis.UniversalClient, opts ...redislock.Option) driver.Engine {
	o := redisengine.Apply(opts)
	switch c.(type) {
	case *redis.Client, *redis.ClusterClient:
	default:
		o.Refuse = fmt.Errorf("goredis: a %T: %w", c, driver.ErrUnsupported)
	}
	return redisengine.New(newClient(c), o)
}
