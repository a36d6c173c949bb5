package redisline

import (
	"cmp"
	"context"

	"github.com/pawl-go/pawl/driverkit"
	"github.com/pawl-go/pawl/redislock/internal/redisclient"
)

// store is the part of an engine that its sessions share.
type store struct {
	Config
	sessions      *driverkit.Sessions[*session]
	subscriptions *driverkit.Subscriptions
	notify        func(message string) // called with every message for the engine's claims
	rights        rights
}

// listen receives the messages of a channel. A refusal by the server that is not temporary
// is marked: the subscription will not come up.
func (s *store) listen(ctx context.Context, channel string, up func(), message func(string)) error {
	err := s.Client.Subscribe(ctx, channel, up, message)
	if redisclient.Code(err) != "" && !redisclient.Temporary(err) {
		return driverkit.Refused(redisclient.Wrap(err))
	}
	return err
}

// Ready returns why nothing can be granted.
func (s *store) Ready(ctx context.Context) error {
	if err := cmp.Or(ctx.Err(), s.Refuse); err != nil {
		return err
	}
	if err := s.Eviction.Err(ctx); err != nil || s.rights.checked.Load() {
		return err
	}
	return s.rights.check(ctx, s)
}

// run runs a script.
func (s *store) run(ctx context.Context, sc *redisclient.Script, keys []string, args ...string) (redisclient.Reply, error) {
	return redisclient.Run(ctx, s.Client, redisclient.Call{Script: sc, Keys: keys, Args: args})
}

// wrap wraps the error of a call on name.
func (s *store) wrap(name string, err error) error {
	return redisclient.WrapHold(s.Keys.Hold(name), err)
}

// again makes a call that enters a claim until it does more than to drop expired ones.
func again(ctx context.Context, call func() (redisclient.Reply, error)) (redisclient.Reply, error) {
	for {
		r, err := call()
		if err != nil || len(r.Array) != 1 || r.Array[0].Int != codeAgain {
			return r, err
		}
		if err := ctx.Err(); err != nil {
			return redisclient.Reply{}, err
		}
	}
}
