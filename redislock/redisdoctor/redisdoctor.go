// Package redisdoctor examines Redis and Valkey: one server, a master behind sentinels,
// a cluster. Imported, it makes package doctor accept redis://, rediss://,
// redis-sentinel:// and redis-cluster:// URLs.
//
// It sends commands that read, and scripts that call no command that writes.
package redisdoctor

import (
	"context"
	"net"
	"net/url"
	"strconv"
	"time"

	redis "github.com/redis/rueidis"

	"github.com/pawl-go/pawl/doctor"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/redislock/internal/redisurl"
)

func init() {
	doctor.Register("redis", examineServer)
	doctor.Register("rediss", examineServer)
	doctor.Register("redis-sentinel", examineSentinels)
	doctor.Register("redis-cluster", examineCluster)
}

const (
	dialTimeout = 3 * time.Second
	// contact bounds how long one server may take to accept a connection and to answer
	// all that it is asked, so that silent servers leave time for the others.
	contact = 10 * time.Second
)

// A store is what a URL names.
type store struct {
	*redisurl.Target
	url *url.URL
}

// parse reads a URL. Connections are made by the dialer of ctx, if it has one.
func parse(ctx context.Context, u *url.URL) (*store, error) {
	t, err := redisurl.Parse(u, redis.ClientOption{
		DisableRetry: true, DisableCache: true,
		ConnWriteTimeout:  dialTimeout,
		Dialer:            net.Dialer{Timeout: dialTimeout},
		DialCtxFn:         redisurl.Dial(driver.DialerOf(ctx), dialTimeout, nil),
		RingScaleEachConn: 8, ReadBufferEachConn: 64 << 10, WriteBufferEachConn: 32 << 10,
	})
	if err != nil {
		return nil, err
	}
	return &store{t, u}, nil
}

// at returns a URL for a mend: of a scheme and hosts, with the rest of this URL but its
// login. A parameter is added if it is not "".
func (t *store) at(scheme, hosts, parameter, value string) string {
	u := url.URL{Scheme: scheme, Host: hosts, Path: t.url.Path}
	database := ""
	if t.Client.SelectDB > 0 {
		database = "/" + strconv.Itoa(t.Client.SelectDB)
	}
	switch {
	case scheme == "redis-cluster":
		u.Path = ""
	case scheme != t.url.Scheme && t.url.Scheme == "redis-sentinel": // its path begins with the master's name
		u.Path = database
	case scheme != t.url.Scheme && scheme == "redis-sentinel":
		u.Path = "/NAME" + database
	}
	q := t.url.Query() // another prefix, for one, would be other locks
	if t.url.Scheme == "rediss" && scheme != "rediss" {
		q.Set("tls", "yes")
	}
	if scheme != "redis-sentinel" {
		q.Del("sentinel-auth")
	}
	if parameter != "" {
		q.Set(parameter, value)
	}
	if q.Get("wait") == "0" {
		q.Del("wait-timeout")
	}
	u.RawQuery = q.Encode()
	return "-s '" + u.String() + "'"
}

// examineServer examines the one server of a URL.
func examineServer(ctx context.Context, u *url.URL) ([]doctor.Finding, error) {
	t, err := parse(ctx, u)
	if err != nil {
		return nil, err
	}
	s, err := connect(ctx, t, t.Client.InitAddress[0])
	if err != nil {
		return nil, err
	}
	defer s.close()
	return s.examine(ctx, single), nil
}
