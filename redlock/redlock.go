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
// same, and the same max-ttl: the servers refuse clients that name others. A dialer of
// driver.WithDialer makes all connections.
package redlock

import (
	"time"

	redis "github.com/redis/rueidis"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/quorum"
	"github.com/pawl-go/pawl/redislock"
	"github.com/pawl-go/pawl/redislock/rueidis"
)

// An Option changes a setting of an engine.
type Option func(*settings)

type settings struct {
	quorum []quorum.Option
	server []redislock.Option
}

// WithMaxTTL sets the longest TTL of a session, see [quorum.WithMaxTTL]. All clients must
// agree on it.
func WithMaxTTL(d time.Duration) Option {
	return func(s *settings) { s.quorum = append(s.quorum, quorum.WithMaxTTL(d)) }
}

// WithPrefix sets what the names of all keys begin with, as in package redislock. All
// clients must agree on it.
func WithPrefix(prefix string) Option {
	return func(s *settings) { s.server = append(s.server, redislock.WithPrefix(prefix)) }
}

// Engine is a quorum of Redis servers.
type Engine struct {
	*quorum.Engine
	nodes []driver.Engine
}

// New returns an engine on clients of independent Redis servers, by names that must be
// the same in every process. The caller keeps the clients. With clients of another
// library, make engines of them and call [quorum.New].
func New(clients map[string]redis.Client, opts ...Option) (*Engine, error) {
	var set settings
	for _, o := range opts {
		o(&set)
	}
	var nodes []quorum.Node
	for name, c := range clients {
		nodes = append(nodes, quorum.Node{Name: name, Engine: rueidis.New(c, set.server...)})
	}
	return newEngine(nodes, set.quorum)
}

// newEngine returns an engine that closes the engines of its nodes.
func newEngine(nodes []quorum.Node, opts []quorum.Option) (*Engine, error) {
	e := &Engine{}
	for _, n := range nodes {
		e.nodes = append(e.nodes, n.Engine)
	}
	var err error
	if e.Engine, err = quorum.New(nodes, opts...); err != nil {
		return nil, driver.Join(err, e.closeNodes())
	}
	return e, nil
}

// Features returns those of a quorum.
func (e *Engine) Features() driver.Features {
	f := e.Engine.Features()
	f.Store = "redlock"
	return f
}

// Close ends all sessions, and what the engine has opened at the servers. The clients
// that were passed to New stay open.
func (e *Engine) Close() error { return driver.Join(e.Engine.Close(), e.closeNodes()) }

func (e *Engine) closeNodes() error {
	var errs []error
	for _, n := range e.nodes {
		errs = append(errs, n.Close())
	}
	return driver.Join(errs...)
}
