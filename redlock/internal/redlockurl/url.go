// Package redlockurl reads the URLs of a Redlock. The opener and the examiner of package
// redlockdoctor share it.
package redlockurl

import (
	"net/url"
	"strings"
	"time"

	"github.com/pawl-go/pawl/driverkit"
	"github.com/pawl-go/pawl/quorum"
)

// parameters are passed on to the URL of each server: their names, and older names.
var parameters = [][]string{{"prefix"}, {"allow-eviction"}, {"tls"}, {"tls-ca", "ca"}, {"tls-cert", "cert"}, {"tls-key", "key"}, {"tls-name"}}

// A Server is one of the servers of a URL.
type Server struct {
	Name string   // as the URL spells its host, with or without a port: the names identify the quorum to its servers
	URL  *url.URL // redis://
}

// Parse returns the servers of a URL and the longest TTL of a session.
func Parse(u *url.URL) ([]Server, time.Duration, error) {
	r := driverkit.ReadURL("redlock", u)
	maxTTL := r.Duration("max-ttl", quorum.DefaultMaxTTL, time.Millisecond)
	for _, names := range parameters {
		r.Text(names[0], names[1:]...)
	}
	if u.Opaque != "" || u.Host == "" {
		r.Fail("the URL has no hosts: write redlock://host1,host2,host3")
	}
	q := u.Query()
	q.Del("max-ttl")
	var servers []Server
	seen := map[string]bool{}
	for host := range strings.SplitSeq(u.Host, ",") {
		if host == "" || seen[host] {
			r.Fail("a host is named twice or not at all")
		}
		seen[host] = true
		server := *u
		server.Scheme, server.Host, server.RawQuery = "redis", host, q.Encode()
		servers = append(servers, Server{host, &server})
	}
	return servers, maxTTL, r.Err()
}
