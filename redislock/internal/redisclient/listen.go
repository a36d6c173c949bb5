package redisclient

import (
	"context"

	"github.com/pawl-go/pawl/driverkit"
)

// Listen returns how an engine's subscriptions receive messages through c. A refusal by
// the server that is not temporary is marked: the subscription will not come up.
func Listen(c Client) driverkit.Listen {
	return func(ctx context.Context, channel string, up func(), message func(string)) error {
		err := c.Subscribe(ctx, channel, up, message)
		if Code(err) != "" && !Temporary(err) {
			return driverkit.Refused(Wrap(err))
		}
		return err
	}
}
