package rueidis

import (
	"context"
	"errors"
	"net"
	"net/url"
	"time"

	redis "github.com/redis/rueidis"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/redislock/internal/redisclient"
	"github.com/pawl-go/pawl/redislock/internal/redisengine"
	"github.com/pawl-go/pawl/redislock/internal/redisurl"
)

func init() {
	for _, scheme := range []string{"redis", "rediss", "redis-sentinel", "redis-cluster"} {
		driver.Register(scheme, open)
	}
}

const (
	silence     = 3 * time.Second // after which rueidis takes a connection for dead; a lease of ten seconds outlives it
	dialTimeout = 5 * time.Second
)

// open makes an engine of a URL, with a client of its own.
func open(ctx context.Context, u *url.URL) (driver.Engine, error) {
	t, err := parse(u, clientOption(driver.DialerOf(ctx)))
	if err != nil {
		return nil, err
	}
	c, err := newRedis(ctx, t.Client)
	if err != nil {
		return nil, err
	}
	cl := newClient(c, true)
	e, err := redisengine.Open(ctx, cl, t.ProbeScripts, t.Options)
	if err != nil {
		_ = cl.Close() // with what it has started
		return nil, err
	}
	return e, nil
}

// newRedis connects. The client library takes no ctx for that.
func newRedis(ctx context.Context, o redis.ClientOption) (redis.Client, error) {
	type connected struct {
		c   redis.Client
		err error
	}
	done := make(chan connected)
	go func() { // ends by dialTimeout
		c, err := redis.NewClient(o)
		select {
		case done <- connected{c, err}:
		case <-ctx.Done(): // the caller has given up
			if c != nil {
				c.Close()
			}
		}
	}()
	select {
	case r := <-done:
		if r.err == nil {
			return r.c, nil
		}
		if r.c != nil {
			r.c.Close()
		}
		if errors.Is(r.err, driver.ErrURL) { // of the dialer
			return nil, r.err
		}
		return nil, redisclient.Wrap(serverError(r.err))
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// clientOption returns the options of every client that is opened by URL. If own is nil,
// connections are TCP.
func clientOption(own driver.Dialer) redis.ClientOption {
	return redis.ClientOption{
		DisableRetry:     true,
		DisableCache:     true,
		ConnWriteTimeout: silence,
		Dialer:           net.Dialer{Timeout: dialTimeout, KeepAlive: time.Second},
		DialCtxFn:        redisurl.Dial(own, dialTimeout, newSpinConn),
		// By default a connection takes 1.4 MB, and the time to allocate that.
		RingScaleEachConn:   8, // 256 calls under way
		ReadBufferEachConn:  32 << 10,
		WriteBufferEachConn: 32 << 10,
	}
}
