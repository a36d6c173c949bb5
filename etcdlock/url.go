package etcdlock

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/pawl-go/pawl/driver"
)

func init() {
	driver.Register("etcd", openURL)
	driver.Register("etcds", openURL)
}

const defaultPort = "2379"

// A connection that is silent for silence is asked whether it is alive, and given
// up if it does not answer within grace. Servers forbid asking more often than
// every 5 seconds, and the client asks no more often than every 10.
const (
	silence = 10 * time.Second
	grace   = 3 * time.Second
)

// openURL opens an engine with a client of its own.
func openURL(ctx context.Context, u *url.URL) (driver.Engine, error) {
	config, prefix, err := parseURL(u)
	if err != nil {
		return nil, err
	}
	client, err := connect(ctx, config)
	if err != nil {
		return nil, err
	}
	e := New(client, Prefix(prefix))
	e.owned = true
	return e, nil
}

// connect makes a client. With a password it asks the cluster at once, and for no
// longer than ctx allows; the client itself outlives ctx.
func connect(ctx context.Context, config clientv3.Config) (*clientv3.Client, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	var auth *authenticator
	if config.Username != "" {
		auth = newAuthenticator(&config)
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
	if _, err := auth.other(call, client.ActiveConnection(), nil); err != nil {
		_ = client.Close() // it was never used
		return nil, fmt.Errorf("etcdlock: connect: %w", classify(ctx, err))
	}
	return client, nil
}

// parseURL reads a store's URL. Its errors show no part that could be a password.
func parseURL(u *url.URL) (config clientv3.Config, prefix string, err error) {
	config = clientv3.Config{
		DialTimeout:          5 * time.Second,
		DialKeepAliveTime:    silence,
		DialKeepAliveTimeout: grace,
		MaxUnaryRetries:      3, // the core repeats, and knows for how long
		Logger:               zap.NewNop(),
	}
	prefix = strings.Trim(u.Path, "/")
	if prefix == "" {
		prefix = defaultPrefix
	}
	switch {
	case u.Opaque != "" || u.Host == "":
		return config, "", driver.BadURL("etcdlock: the URL has no host: write %s://host:%s", u.Scheme, defaultPort)
	case u.Fragment != "":
		return config, "", driver.BadURL("etcdlock: # begins a fragment in a URL: write %%23")
	}
	q := u.Query()
	for key := range q {
		switch key {
		case "prefix":
			if strings.Trim(u.Path, "/") != "" {
				return config, "", driver.BadURL("etcdlock: the URL has a path and a parameter prefix, which say the same")
			}
			prefix = q.Get(key)
		case "tls", "ca", "cert", "key":
		default:
			return config, "", driver.BadURL("etcdlock: unknown %s (known: prefix, tls, ca, cert, key)", driver.ShowParameter(u, key))
		}
	}
	if _, err := newSpace(prefix); err != nil {
		return config, "", driver.BadURL("etcdlock: %v", err)
	}
	if config.TLS, err = parseTLS(u.Scheme, q); err != nil {
		return config, "", err
	}
	if config.Endpoints, err = endpoints(u.Host, config.TLS != nil); err != nil {
		return config, "", err
	}
	if u.User != nil {
		config.Username = u.User.Username()
		config.Password, _ = u.User.Password()
		if config.Username == "" || config.Password == "" {
			return config, "", driver.BadURL("etcdlock: a user needs a password, and a password a user")
		}
	}
	return config, prefix, nil
}

// endpoints makes addresses of a list of hosts.
func endpoints(hosts string, secure bool) ([]string, error) {
	scheme := "http://"
	if secure {
		scheme = "https://"
	}
	var all []string
	for host := range strings.SplitSeq(hosts, ",") {
		name, port, err := net.SplitHostPort(host)
		if err != nil { // mostly that it has no port
			name, port = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]"), defaultPort
		}
		switch {
		case name == "" || port == "":
			return nil, driver.BadURL("etcdlock: one of the hosts is empty")
		case strings.Contains(name, ":") && !strings.HasPrefix(host, "["):
			return nil, driver.BadURL("etcdlock: a host is not host:port; an IPv6 address stands in brackets")
		}
		all = append(all, scheme+net.JoinHostPort(name, port))
	}
	return all, nil
}

// parseTLS returns nil where TLS is not asked for.
func parseTLS(scheme string, q url.Values) (*tls.Config, error) {
	wanted := scheme == "etcds"
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	switch q.Get("tls") {
	case "on":
		wanted = true
	case "skip-verify":
		wanted, config.InsecureSkipVerify = true, true
	default:
		if q.Has("tls") {
			return nil, driver.BadURL("etcdlock: parameter tls makes no sense: known are on and skip-verify")
		}
	}
	if !wanted {
		for _, file := range []string{"ca", "cert", "key"} {
			if q.Has(file) {
				return nil, driver.BadURL("etcdlock: parameter %s has no use without TLS: write etcds://", file)
			}
		}
		return nil, nil
	}
	if file := q.Get("ca"); file != "" {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("etcdlock: parameter ca: %w", driver.WithoutPath(err))
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(text) {
			return nil, errors.New("etcdlock: parameter ca: no certificate in the file")
		}
	}
	if q.Has("cert") != q.Has("key") {
		return nil, driver.BadURL("etcdlock: parameters cert and key go together")
	}
	if q.Has("cert") {
		pair, err := tls.LoadX509KeyPair(q.Get("cert"), q.Get("key"))
		if err != nil {
			return nil, fmt.Errorf("etcdlock: parameters cert and key: %w", driver.WithoutPath(err))
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}
