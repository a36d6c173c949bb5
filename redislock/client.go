package redislock

import "context"

// A Client is the few things the engine asks of Redis. Packages redislock/rueidis
// and redislock/goredis make one of the client a program already has.
//
// None of its methods repeats a command whose outcome is unknown; redirections of
// a cluster are followed. All come back soon after ctx has ended. A reply that is
// an error is a [ServerError]; every other error says that there was no reply.
type Client interface {
	// Do sends one command to the node that serves key.
	Do(ctx context.Context, key string, words []string) (Reply, error)

	// Each sends commands in as few pieces as it can, each to the node that serves
	// its key, and answers for each alone; len(out) == len(cmds).
	Each(ctx context.Context, cmds []Command, out []Answer)

	// Together sends commands in one piece on one connection, which nobody else
	// uses meanwhile, to the node that serves key.
	Together(ctx context.Context, key string, cmds [][]string) ([]Answer, error)

	// Fresh is Each on connections that have not failed before, for when those in
	// use may be dead without having said so.
	Fresh(ctx context.Context, cmds []Command, out []Answer)

	// All sends one command to every node that takes writes.
	All(ctx context.Context, words []string) ([]Answer, error)

	// Scan calls page with the keys that match a pattern, on every node that takes
	// writes. A key may be shown twice.
	Scan(ctx context.Context, pattern string, page func(keys []string) error) error

	// Listen subscribes to a channel, in a cluster to a sharded one, and calls got
	// for every message until ctx ends or the subscription does, which it returns
	// the reason of. It calls up whenever the subscription has begun, also when it
	// has begun again, and before the first message that follows. Both functions
	// come back at once.
	Listen(ctx context.Context, channel string, up func(), got func(message string)) error

	// Clustered reports whether keys are spread over the slots of a cluster.
	Clustered() bool

	// Close ends what the client itself has started and waits for it.
	Close() error
}

// A Command is the words of one command and the key that says which node it is for.
type Command struct {
	Key   string
	Words []string
}

// An Answer is what one command was answered.
type Answer struct {
	Reply
	Err error
}

// A Reply is what Redis replied, as far as the engine's commands go.
type Reply struct {
	Null  bool
	Text  string
	Int   int64
	Array []Reply // nil if it is none
}

// A ServerError is a reply that is an error, as Redis words it: a code in capitals
// comes first.
type ServerError string

// Error is the reply.
func (e ServerError) Error() string { return string(e) }
