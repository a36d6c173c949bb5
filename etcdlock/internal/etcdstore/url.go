package etcdstore

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/pawl-go/pawl/driver"
)

const defaultPort = "2379"

// ParseURL reads the URL of a cluster. Its errors show nothing that could be a password.
func ParseURL(u *url.URL, defaultPrefix string) (config clientv3.Config, prefix string, err error) {
	config = NewConfig()
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

// endpoints returns the addresses of a list of hosts.
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
			return nil, driver.BadURL("etcdlock: a host is not host:port; write an IPv6 address in brackets")
		}
		all = append(all, scheme+net.JoinHostPort(name, port))
	}
	return all, nil
}

// parseTLS returns nil where the URL does not ask for TLS.
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
			return nil, driver.BadURL("etcdlock: parameter tls is not on or skip-verify")
		}
	}
	if !wanted {
		for _, file := range []string{"ca", "cert", "key"} {
			if q.Has(file) {
				return nil, driver.BadURL("etcdlock: parameter %s requires TLS: write etcds://", file)
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
