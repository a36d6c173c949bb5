package rueidis

import (
	"crypto/tls"
	"crypto/x509"
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
	"github.com/pawl-go/pawl/redislock/internal/redisengine"
)

// known are the parameters of a URL.
const known = "prefix, wait, wait-timeout, scripts, allow-eviction, tls, tls-ca, tls-cert, tls-key, tls-name, sentinel-auth"

// A target is the contents of a URL.
type target struct {
	client       redis.ClientOption
	options      redisengine.Options
	probeScripts bool // ask the server whether it runs scripts
	tls          tlsFiles
	secure       bool
}

type tlsFiles struct{ ca, cert, key, name string }

// parse reads a URL. client has the options that do not depend on it.
func parse(u *url.URL, client redis.ClientOption) (*target, error) {
	t := &target{
		client: client, options: redisengine.Apply[redislock.Option](nil),
		probeScripts: true, secure: u.Scheme == "rediss",
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
	if err := t.servers(u, same); err != nil {
		return nil, err
	}
	if err := t.options.Check(u.Scheme == "redis-cluster"); err != nil {
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

// servers reads the addresses of the servers, and which database or master to use.
func (t *target) servers(u *url.URL, sameAuth bool) error {
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
	for key, values := range u.Query() {
		value := values[len(values)-1]
		switch key {
		case "prefix":
			t.options.Prefix = value
		case "wait":
			if t.options.Replicas, err = strconv.Atoi(value); err != nil || t.options.Replicas < 0 {
				return false, driver.BadURL("redis: wait is not a number of replicas")
			}
		case "wait-timeout":
			if t.options.ReplicaTimeout, err = time.ParseDuration(value); err != nil || t.options.ReplicaTimeout < time.Millisecond {
				return false, driver.BadURL("redis: wait-timeout is not a duration of a millisecond or more")
			}
		case "scripts":
			err = t.scripts(value)
		case "allow-eviction":
			t.options.EvictionAllowed, err = yes(key, value)
		case "tls":
			t.secure, err = yes(key, value)
			if err == nil && !t.secure && u.Scheme == "rediss" {
				err = driver.BadURL("redis: tls=no contradicts rediss://")
			}
		case "sentinel-auth":
			sameAuth, err = yes(key, value)
		default:
			if !t.tls.set(key, value) {
				err = driver.BadURL("redis: unknown %s (known: %s)", driver.ShowParameter(u, key), known)
			}
		}
		if err != nil {
			return false, err
		}
	}
	if u.Query().Has("wait-timeout") && t.options.Replicas == 0 {
		return false, driver.BadURL("redis: wait-timeout without wait")
	}
	return sameAuth, nil
}

func (t *target) scripts(value string) error {
	switch value {
	case "auto":
		t.probeScripts, t.options.WithoutScripts = true, false
	case "always":
		t.probeScripts, t.options.WithoutScripts = false, false
	case "never":
		t.probeScripts, t.options.WithoutScripts = false, true
	default:
		return driver.BadURL("redis: scripts is not one of auto, always and never")
	}
	return nil
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

// config returns the TLS configuration. Unless a name is given, each connection checks
// the name of its own host.
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
