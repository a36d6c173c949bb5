package redisurl

import (
	"context"
	"crypto/tls"
	"io"
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
		t, err := handshake(ctx, c, addr, secure)
		if err != nil && speaksPlain(ctx, connect, addr) {
			return nil, driver.BadURL("redis: the server answers without TLS at this port: write redis://, or the port with TLS")
		}
		return t, err
	}
}

const plainTimeout = time.Second

// speaksPlain reports whether a server with which TLS failed is a Redis without TLS, which
// takes the beginning of TLS for an unfinished command, and is silent. It sends no password.
func speaksPlain(ctx context.Context, connect driver.Dialer, addr string) bool {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), plainTimeout)
	defer cancel()
	c, err := connect(ctx, "tcp", addr)
	if err != nil {
		return false
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(plainTimeout)) // a connection without deadlines ends with the server
	answer := make([]byte, 1)
	if _, err := io.WriteString(c, "PING\r\n"); err != nil {
		return false
	}
	_, err = io.ReadFull(c, answer)
	return err == nil && (answer[0] == '+' || answer[0] == '-')
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
