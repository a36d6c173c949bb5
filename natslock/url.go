package natslock

import (
	"context"
	"net/url"

	"github.com/nats-io/nats.go"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driverkit"
)

func init() { driver.Register("nats", openURL) }

// openURL opens an engine with a connection of its own.
func openURL(ctx context.Context, u *url.URL) (driver.Engine, error) {
	r := driverkit.ReadURL("natslock", u)
	config := nats.GetDefaultOptions()
	for _, host := range r.Hosts("4222") {
		config.Servers = append(config.Servers, "nats://"+host)
	}
	config.TLSConfig = r.TLS(false)
	config.Secure = config.TLSConfig != nil
	config.User, config.Password = r.Login()
	if config.Password == "" {
		config.User, config.Token = "", config.User
	}
	creds, hasCreds := r.Text("creds")
	nkey, hasNkey := r.Text("nkey")
	if hasCreds && hasNkey || u.User != nil && (hasCreds || hasNkey) {
		r.Fail("only one of a user, parameter creds and parameter nkey may be given")
	}
	o := options{bucket: r.Path(), replicas: r.Number("replicas", 0, 1)}
	if o.bucket == "" {
		o.bucket = defaultBucket
	}
	if err := checkBucket(o.bucket); err != nil {
		r.Fail("%v", err)
	}
	if err := r.Err(); err != nil {
		return nil, err
	}
	store, err := dial(ctx, config, creds, nkey, o)
	if err != nil {
		return nil, err
	}
	return newEngine(store), nil
}
