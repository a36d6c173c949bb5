package rueidis

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	redis "github.com/redis/rueidis"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/redislock"
)

func init() {
	for _, scheme := range []string{"redis", "rediss", "redis-sentinel", "redis-cluster"} {
		driver.Register(scheme, open)
	}
}

// How long rueidis waits before it takes a silent connection for dead, and for
// the end of a subscription. A lease of ten seconds outlives the first.
const (
	silence          = 3 * time.Second
	dialLimit        = 5 * time.Second
	unsubscribeLimit = time.Second
)

// known are the parameters a URL may have.
const known = "prefix, wait, wait-timeout, scripts, allow-eviction, tls, tls-ca, tls-cert, tls-key, tls-name, sentinel-auth"

// A target is what a URL says.
type target struct {
	client  redis.ClientOption
	opts    []redislock.Option
	scripts redislock.Scripts
	tls     tlsFiles
	secure  bool
}

type tlsFiles struct{ ca, cert, key, name string }

// open makes an engine of a URL, with a client of its own.
func open(ctx context.Context, u *url.URL) (driver.Engine, error) {
	t, err := parse(u)
	if err != nil {
		return nil, err
	}
	c, err := t.dial(ctx)
	if err != nil {
		return nil, err
	}
	cl := newClient(c, true)
	e, err := redislock.Open(ctx, cl, t.scripts, t.opts...)
	if err != nil {
		_ = cl.Close() // with what it has started
		return nil, err
	}
	return e, nil
}

// dial connects. The client library does not take a ctx for that.
func (t *target) dial(ctx context.Context) (redis.Client, error) {
	type result struct {
		c   redis.Client
		err error
	}
	done := make(chan result, 1)
	go func() { // ends by the dial limit; whoever has given up waiting leaves it the client to close
		c, err := redis.NewClient(t.client)
		done <- result{c, err}
	}()
	select {
	case r := <-done:
		if r.err == nil {
			return r.c, nil
		}
		if r.c != nil {
			r.c.Close()
		}
		return nil, redislock.Fault(plain(r.err))
	case <-ctx.Done():
		go func() {
			if r := <-done; r.c != nil {
				r.c.Close()
			}
		}()
		return nil, ctx.Err()
	}
}

// connect makes one of the client's connections.
func connect(ctx context.Context, addr string, by *net.Dialer, secure *tls.Config) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialLimit) // that of a sentinel's dialer is none
	defer cancel()
	c, err := by.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	c = redislock.Awake(c)
	if secure == nil {
		return c, nil
	}
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

// plain makes an error of the server one of redislock's.
func plain(err error) error {
	if e, ok := errors.AsType[*redis.RedisError](err); ok && !e.IsNil() {
		return redislock.ServerError(e.Error())
	}
	return err
}

func parse(u *url.URL) (*target, error) {
	t := &target{secure: u.Scheme == "rediss"}
	t.client = redis.ClientOption{
		DisableRetry:     true,
		DisableCache:     true,
		ConnWriteTimeout: silence,
		Dialer:           net.Dialer{Timeout: dialLimit, KeepAlive: time.Second},
		DialCtxFn:        connect,
		// By default a connection takes 1.4 MB, and the time to make that.
		RingScaleEachConn:   8, // 256 calls under way
		ReadBufferEachConn:  32 << 10,
		WriteBufferEachConn: 32 << 10,
	}
	if u.Opaque != "" || u.Host == "" {
		return nil, driver.BadURL("redis: the URL has no host: write %s://host:6379", u.Scheme)
	}
	if u.Fragment != "" {
		return nil, driver.BadURL("redis: # begins a fragment in a URL: write %%23")
	}
	if u.User != nil {
		t.client.Username = u.User.Username()
		t.client.Password, _ = u.User.Password()
	}
	same, err := t.parameters(u)
	if err != nil {
		return nil, err
	}
	if err := t.place(u, same); err != nil {
		return nil, err
	}
	if err := redislock.CheckOptions(u.Scheme == "redis-cluster", t.opts...); err != nil {
		return nil, driver.BadURL("%v", err)
	}
	if t.secure {
		if t.client.TLSConfig, err = t.tls.config(); err != nil {
			return nil, err
		}
		t.client.Sentinel.TLSConfig = t.client.TLSConfig
	} else if t.tls != (tlsFiles{}) {
		return nil, driver.BadURL("redis: tls- parameters without TLS: write rediss:// or add tls=yes")
	}
	return t, nil
}

// place reads where the servers are.
func (t *target) place(u *url.URL, sameAuth bool) error {
	port := "6379"
	path := strings.Trim(u.Path, "/")
	switch u.Scheme {
	case "redis-sentinel":
		port = "26379"
		t.client.Sentinel.MasterSet, path, _ = strings.Cut(path, "/")
		if t.client.Sentinel.MasterSet == "" {
			return driver.BadURL("redis: the URL names no master: write redis-sentinel://host1,host2/master")
		}
		if sameAuth {
			t.client.Sentinel.Username, t.client.Sentinel.Password = t.client.Username, t.client.Password
		}
	case "redis-cluster":
		if path != "" {
			return driver.BadURL("redis: a cluster has one database, and no path in its URL")
		}
	default:
		t.client.ForceSingleClient = true
	}
	if path != "" {
		db, err := strconv.Atoi(path)
		if err != nil || db < 0 {
			return driver.BadURL("redis: the database in the URL's path is not a number")
		}
		t.client.SelectDB = db
	}
	for host := range strings.SplitSeq(u.Host, ",") {
		addr, err := address(host, port)
		if err != nil {
			return err
		}
		t.client.InitAddress = append(t.client.InitAddress, addr)
	}
	if t.client.ForceSingleClient && len(t.client.InitAddress) > 1 {
		return driver.BadURL("redis: several hosts: write redis-sentinel:// or redis-cluster://")
	}
	return nil
}

// address adds a port where there is none.
func address(host, port string) (string, error) {
	h, p, err := net.SplitHostPort(host)
	if err != nil {
		h, p = strings.Trim(host, "[]"), port
	}
	n, err := strconv.Atoi(p)
	if h == "" || strings.Contains(h, "]") || err != nil || n < 1 || n > 65535 {
		return "", driver.BadURL("redis: a host is not host:port; an IPv6 address stands in brackets")
	}
	return net.JoinHostPort(h, p), nil
}

func (t *target) parameters(u *url.URL) (sameAuth bool, err error) {
	replicas, timeout := 0, time.Duration(0)
	for key, values := range u.Query() {
		value := values[len(values)-1]
		switch key {
		case "prefix":
			t.opts = append(t.opts, redislock.Prefix(value))
		case "wait":
			if replicas, err = strconv.Atoi(value); err != nil || replicas < 0 {
				return false, driver.BadURL("redis: wait is not a number of replicas")
			}
		case "wait-timeout":
			if timeout, err = time.ParseDuration(value); err != nil || timeout < time.Millisecond {
				return false, driver.BadURL("redis: wait-timeout is not a duration of a millisecond or more")
			}
		case "scripts":
			if t.scripts, err = scripts(value); err != nil {
				return false, err
			}
		case "allow-eviction":
			allow, err := yes(key, value)
			if err != nil {
				return false, err
			}
			if allow {
				t.opts = append(t.opts, redislock.AllowEviction())
			}
		case "tls":
			secure, err := yes(key, value)
			if err != nil {
				return false, err
			}
			if t.secure && !secure {
				return false, driver.BadURL("redis: tls=no contradicts rediss://")
			}
			t.secure = secure
		case "sentinel-auth":
			if sameAuth, err = yes(key, value); err != nil {
				return false, err
			}
		default:
			if !t.tls.set(key, value) {
				return false, driver.BadURL("redis: unknown %s (known: %s)", driver.ShowParameter(u, key), known)
			}
		}
	}
	if timeout > 0 && replicas == 0 {
		return false, driver.BadURL("redis: wait-timeout without wait")
	}
	if replicas > 0 {
		t.opts = append(t.opts, redislock.Wait(replicas, timeout))
	}
	return sameAuth, nil
}

func scripts(value string) (redislock.Scripts, error) {
	switch value {
	case "auto":
		return redislock.ScriptsIfAllowed, nil
	case "always":
		return redislock.ScriptsAlways, nil
	case "never":
		return redislock.ScriptsNever, nil
	}
	return 0, driver.BadURL("redis: scripts is not one of auto, always and never")
}

func yes(key, value string) (bool, error) {
	switch value {
	case "yes":
		return true, nil
	case "no":
		return false, nil
	}
	return false, driver.BadURL("redis: %s is not yes or no", key)
}

func (f *tlsFiles) set(key, value string) bool {
	switch key {
	case "tls-ca":
		f.ca = value
	case "tls-cert":
		f.cert = value
	case "tls-key":
		f.key = value
	case "tls-name":
		f.name = value
	default:
		return false
	}
	return true
}

// config is the TLS configuration; the host is checked by the client for each
// connection unless a name is given.
func (f tlsFiles) config() (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: f.name}
	if f.ca != "" {
		pem, err := os.ReadFile(f.ca)
		if err != nil {
			return nil, fmt.Errorf("redis: tls-ca: %w", driver.WithoutPath(err))
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, driver.BadURL("redis: tls-ca: no certificate in the file")
		}
	}
	if (f.cert == "") != (f.key == "") {
		return nil, driver.BadURL("redis: tls-cert and tls-key belong together")
	}
	if f.cert != "" {
		pair, err := tls.LoadX509KeyPair(f.cert, f.key)
		if err != nil {
			return nil, fmt.Errorf("redis: tls-cert and tls-key: %w", driver.WithoutPath(err))
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}
