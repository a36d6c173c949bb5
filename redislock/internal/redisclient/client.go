// Package redisclient is what pawl asks of a Redis client library: calls that return
// when their ctx ends, batches, and subscriptions that report their gaps. Packages
// redislock/goredis and redislock/rueidis implement [Client]; the lines of claims are
// built on it. The package knows no claims.
package redisclient

import "context"

// A Client sends calls to Redis.
//
// No method repeats a call whose outcome is unknown; redirections of a cluster are
// followed. All methods return soon after ctx has ended. An error reply is a
// [ServerError]; every other error says that there was no reply. Calls go to the node
// of their first key.
type Client interface {
	// Do sends one call. Several concurrent ones may be sent as one, see [Merge].
	Do(ctx context.Context, c Call) (Reply, error)

	// DoMany sends calls in as few packets as it can and answers each separately;
	// len(out) == len(calls).
	DoMany(ctx context.Context, calls []Call, out []Answer)

	// Probed returns DoMany on connections that have just proved to be alive, for when
	// those in use may be dead without notice: one probe serves all calls until ctx ends
	// or release is called. An error says that the server does not answer.
	Probed(ctx context.Context) (send Many, release func(), err error)

	// NodesOf returns for each call which node serves its key, as far as the client
	// knows: calls of different nodes are better not sent together, because one that is
	// slow delays the answers of all. nil says that there is one node.
	NodesOf(ctx context.Context, calls []Call) []string

	// Pipeline sends calls in one packet on one connection, which no other caller
	// uses at the same time, to the node of the first call. The last one may block.
	Pipeline(ctx context.Context, calls []Call) ([]Answer, error)

	// DoManyThen is DoMany on connections that no other caller uses, one for each node
	// of the calls, and sends last behind them on each of these: lasts[i] is its answer
	// on the connection of calls[i].
	DoManyThen(ctx context.Context, calls []Call, last Call, out, lasts []Answer)

	// EachMaster calls f for every node that serves slots, one at a time; do sends a
	// call to that node, and fails if the node is down. It returns an error of f, or why
	// the nodes are not known.
	EachMaster(ctx context.Context, f func(do Send) error) error

	// Subscribe subscribes to a channel, in a cluster to a sharded one, and calls
	// received for every message until ctx or the subscription ends; it returns why.
	// It calls established whenever the subscription is established, also again after
	// a gap, and before the first message that follows. Both functions return at once.
	Subscribe(ctx context.Context, channel string, established func(), received func(message string)) error

	// Clustered reports whether keys are spread over the slots of a cluster.
	Clustered() bool

	// Close ends the client's goroutines and waits for them.
	Close() error
}

// A Send sends one call to one node.
type Send func(context.Context, Call) (Reply, error)

// A Reply is a reply of Redis, as far as pawl's calls need it.
type Reply struct {
	Null  bool
	Text  string
	Int   int64
	Array []Reply // nil unless the reply is an array
}

// An Answer is the result of one call of several.
type Answer struct {
	Reply
	Err error
}
