package natslock

import (
	"context"
	"net/url"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/natslock/internal/natsstore"
)

func init() { driver.Register("nats", openURL) }

// openURL opens an engine with a connection of its own.
func openURL(ctx context.Context, u *url.URL) (driver.Engine, error) {
	settings, err := natsstore.ParseURL(u)
	if err != nil {
		return nil, err
	}
	store, err := dial(ctx, settings)
	if err != nil {
		return nil, err
	}
	return newEngine(store), nil
}
