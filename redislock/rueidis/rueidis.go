// Package rueidis makes pawl's Redis engine of a rueidis client. Opened by URL, pawl
// uses Redis through it.
//
// URLs: "redis://user:password@host:6379/db", "rediss://" with TLS,
// "redis-sentinel://host1,host2/master/db", "redis-cluster://host1,host2". See
// docs/redis.md for the parameters. A dialer of driver.WithDialer also makes the connections
// to masters and nodes that sentinels and clusters name.
package rueidis

import (
	redis "github.com/redis/rueidis"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/redislock"
	"github.com/pawl-go/pawl/redislock/internal/redisengine"
)

// New returns an engine on a client the program already has, which stays open. On a single
// server it keeps up to two connections of the client's pool (BlockingPoolSize), and leaves
// at least one.
// However the client is configured, it does not repeat the engine's commands.
func New(c redis.Client, opts ...redislock.Option) driver.Engine {
	return redisengine.New(newClient(c, false), redisengine.Apply(opts))
}
