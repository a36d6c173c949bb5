package redislock

import (
	"time"

	"github.com/pawl-go/pawl/redislock/internal/redisengine"
)

// DefaultPrefix is the prefix of all keys, "pawl:", unless [WithPrefix] sets another.
const DefaultPrefix = redisengine.DefaultPrefix

// DefaultWaitTimeout is how long a grant or a renewal waits for replicas, a second, unless
// [WithWait] sets another time.
const DefaultWaitTimeout = redisengine.DefaultReplicaTimeout

// An Option changes how an engine uses Redis. A bad option is an error of the engine's
// first call.
type Option func(*redisengine.Options)

// WithPrefix sets what precedes a name in the key of its hold; with "" the key is the
// name itself. One prefix must not begin with another that is in use.
func WithPrefix(prefix string) Option { return func(o *redisengine.Options) { o.Prefix = prefix } }

// WithWait makes a grant and each of its renewals wait until a number of replicas have
// confirmed it. A grant that fewer confirm within timeout is given back, and is an error;
// a renewal that fewer confirm, within at most a sixth of the TTL, prolongs nothing.
// timeout 0 is [DefaultWaitTimeout]. A grant can still be lost: a failover may promote a
// replica that does not have it.
func WithWait(replicas int, timeout time.Duration) Option {
	return func(o *redisengine.Options) { o.Replicas, o.ReplicaTimeout = replicas, timeout }
}

// WithEvictionAllowed accepts a server that may evict keys when its memory is full. A
// holder whose key is evicted learns it at its next beat; until then another client
// may hold the lock.
func WithEvictionAllowed() Option { return func(o *redisengine.Options) { o.EvictionAllowed = true } }

// WithoutScripts is for servers that forbid EVAL and have commands that compare a
// value: Valkey 9 and newer. Such an engine has no line, nothing shared or counted, and
// no tokens.
func WithoutScripts() Option { return func(o *redisengine.Options) { o.WithoutScripts = true } }
