package driver

import (
	"context"
	"net"
)

// A Dialer opens a connection to a server of a store, in place of the operating system's
// own. network is "tcp" or "unix"; address is host:port as the URL or the store itself
// spells it, with a name that has not been looked up, or the path of a socket. It returns
// soon after ctx ends, and may be called concurrently.
type Dialer func(ctx context.Context, network, address string) (net.Conn, error)

type dialerKey struct{}

// WithDialer returns a context for an [Opener]: every connection of the engine that it
// opens is made by d, also those that the engine makes later and those to servers that
// the store names, and TLS is spoken on top of it where the URL says so. Engines that use
// no network ignore it: memory and SQLite. A nil d stands for the operating system's own.
func WithDialer(ctx context.Context, d Dialer) context.Context {
	return context.WithValue(ctx, dialerKey{}, d)
}

// DialerOf returns the dialer that WithDialer has put into ctx, or nil. An Opener reads it
// once and keeps it, because the engine outlives ctx.
func DialerOf(ctx context.Context) Dialer {
	d, _ := ctx.Value(dialerKey{}).(Dialer)
	return d
}
