package etcdstore

import (
	"context"
	"fmt"
	"net"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/pawl-go/pawl/driver"
)

// A connection that is silent for PingAfter is pinged, and closed if it does not answer
// within PingTimeout. Servers forbid pings more often than every 5 seconds, and the
// client sends none more often than every 10.
const (
	PingAfter   = 10 * time.Second
	PingTimeout = 3 * time.Second
)

// NewConfig returns the settings of a client for a store.
func NewConfig() clientv3.Config {
	return clientv3.Config{
		DialTimeout:          5 * time.Second,
		DialKeepAliveTime:    PingAfter,
		DialKeepAliveTimeout: PingTimeout,
		MaxUnaryRetries:      3, // the store's user repeats, and knows for how long
		Logger:               zap.NewNop(),
	}
}

// DialWith makes d the dialer of a client's connections. Endpoints of a URL are TCP.
func DialWith(config *clientv3.Config, d driver.Dialer) {
	config.DialOptions = append(config.DialOptions[:len(config.DialOptions):len(config.DialOptions)],
		grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) { return d(ctx, "tcp", addr) }))
}

// Connect makes a client. With a password it authenticates at once, and for no longer
// than ctx allows; the client itself outlives ctx.
func Connect(ctx context.Context, config clientv3.Config) (*clientv3.Client, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	var auth *Authenticator
	if config.Username != "" {
		auth = NewAuthenticator(&config)
	}
	client, err := clientv3.New(config)
	if err != nil {
		return nil, fmt.Errorf("etcdlock: connect: %w", classify(ctx, err))
	}
	if auth == nil {
		return client, nil
	}
	call, cancel := context.WithTimeout(ctx, config.DialTimeout)
	defer cancel()
	if _, err := auth.token(call, client.ActiveConnection(), nil); err != nil {
		_ = client.Close() // it was never used
		return nil, fmt.Errorf("etcdlock: connect: %w", classify(ctx, err))
	}
	return client, nil
}
