package rueidis_test

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"time"

	redis "github.com/redis/rueidis"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/faultproxy"
	"github.com/pawl-go/pawl/internal/testserver"
	"github.com/pawl-go/pawl/redislock"
	"github.com/pawl-go/pawl/redislock/rueidis"
)

// A dialer can be made to time out.
type dialer struct{ late atomic.Bool }

func (d *dialer) dial(ctx context.Context, addr string, with *net.Dialer, _ *tls.Config) (net.Conn, error) {
	n := *with
	if d.late.Load() {
		n.Timeout = 1
	}
	return n.DialContext(ctx, "tcp", addr)
}

// The error of a dialer that runs out of its own time is a DeadlineExceeded to errors.Is.
func TestADialTimeoutIsNotTheEndOfTheCallersCtx(t *testing.T) {
	t.Parallel()
	t.Run("List", func(t *testing.T) {
		t.Parallel()
		var d dialer
		p := faultproxy.New(t, testserver.Redis(t).Addr())
		e := engineWith(t, &d, []string{p.Addr()})
		session(t, e, time.Minute)
		d.late.Store(true)
		p.Reset()
		for range 2 { // the first one may use the connection that was reset
			for _, err := range e.List(t.Context(), "") {
				unreachable(t, err)
			}
		}
	})
	t.Run("Enter with wait in a cluster", func(t *testing.T) {
		t.Parallel()
		var d dialer
		e := engineWith(t, &d, testserver.RedisCluster(t).Addrs(), redislock.WithWait(1, time.Second))
		s := session(t, e, time.Minute)
		d.late.Store(true) // a connection of its own has to be made
		_, err := s.Enter(t.Context(), mutex("aa", "job"))
		unreachable(t, err)
	})
}

func unreachable(t *testing.T, err error) {
	t.Helper()
	if !errors.Is(err, driver.ErrUnreachable) || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v, not ErrUnreachable alone", err)
	}
}

func engineWith(t *testing.T, d *dialer, addrs []string, opts ...redislock.Option) driver.Engine {
	t.Helper()
	c, err := redis.NewClient(redis.ClientOption{InitAddress: addrs, ForceSingleClient: len(addrs) == 1, DialCtxFn: d.dial, DisableRetry: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	e := rueidis.New(c, opts...)
	t.Cleanup(func() { _ = e.Close() })
	return e
}
