package redisurl

import (
	"context"
	"crypto/tls"
	"net"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// Dial returns the function with which a client makes its connections, each within limit:
// by own, or by TCP if that is nil. each may replace a connection before TLS begins on it;
// nil replaces none.
func Dial(own driver.Dialer, limit time.Duration, each func(net.Conn) net.Conn) func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) {
	return func(ctx context.Context, addr string, dialer *net.Dialer, secure *tls.Config) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, limit) // own may have none
		defer cancel()
		connect := own
		if connect == nil {
			connect = dialer.DialContext
		}
		c, err := connect(ctx, "tcp", addr)
		if err != nil {
			return nil, err
		}
		if each != nil {
			c = each(c)
		}
		if secure == nil {
			return c, nil
		}
		return handshake(ctx, c, addr, secure)
	}
}

// handshake begins TLS on a connection. The name to be verified is the host's unless the
// URL has another.
func handshake(ctx context.Context, c net.Conn, addr string, secure *tls.Config) (net.Conn, error) {
	if secure.ServerName == "" {
		secure = secure.Clone()
		secure.ServerName, _, _ = net.SplitHostPort(addr)
	}
	t := tls.Client(c, secure)
	if err := t.HandshakeContext(ctx); err != nil {
		_ = c.Close()
		return nil, err
	}
	return t, nil
}
