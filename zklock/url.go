package zklock

import (
	"context"
	"net"
	"net/url"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/zklock/internal/zkpath"
)

func init() { driver.Register("zk", openURL) }

// openURL opens an engine with connections of its own, which a dialer of driver.WithDialer
// makes if ctx has one.
func openURL(ctx context.Context, u *url.URL) (driver.Engine, error) {
	s, err := zkpath.ParseURL(u)
	if err != nil {
		return nil, err
	}
	opts := []Option{WithPath(s.Path), WithPrefix(s.Prefix)}
	if u.User != nil {
		opts = append(opts, WithDigest(s.User, s.Password))
	}
	if s.CreatorOnly {
		opts = append(opts, WithCreatorOnly())
	}
	if d := driver.DialerOf(ctx); d != nil {
		opts = append(opts, withDialer(func(ctx context.Context, network, addr string, timeout time.Duration) (net.Conn, error) {
			ctx, cancel := context.WithTimeout(ctx, timeout)
			defer cancel()
			return d(ctx, network, addr)
		}))
	}
	e, err := Connect(ctx, s.Servers, opts...)
	if err != nil {
		return nil, err
	}
	return e, nil
}
