// Package redlock is Redlock with fencing tokens: a lock that a majority of
// independent Redis servers holds. See package quorum for how it works and why its
// tokens are unique, and docs/redlock.md for when to use it.
//
// Use it where several Redis servers do not replicate to each other, and a lock must
// survive the loss of any minority of them. For one Redis, or one with replicas,
// package redislock does more and costs less; etcd and ZooKeeper have real consensus,
// and so a line as well.
//
// URLs: redlock://host1,host2,host3, or redlock://user:password@host1:6379,…/db with
// the parameters of redis:// that concern one server, and max-ttl, the longest TTL of
// a session (1m). Every client must name the same hosts, in any order but spelled the
// same, and the same max-ttl: the servers refuse clients that name others.
package redlock

import (
	redis "github.com/redis/rueidis"

	"github.com/pawl-go/pawl/quorum"
	"github.com/pawl-go/pawl/redislock/rueidis"
)

// New returns an engine on clients of independent Redis servers, by names that must be
// the same in every process. The caller keeps the clients. With clients of another
// library, make engines of them and call [quorum.New].
func New(clients map[string]redis.Client, opts ...quorum.Option) (*quorum.Engine, error) {
	var nodes []quorum.Node
	for name, c := range clients {
		nodes = append(nodes, quorum.Node{Name: name, Engine: rueidis.New(c)})
	}
	return quorum.New(nodes, opts...)
}
