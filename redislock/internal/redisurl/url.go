// Package redisurl reads the URLs of Redis stores: into options of a rueidis client and
// options of the engine. The opener and the examiner of package redisdoctor share it.
package redisurl

import (
	"net/url"
	"strconv"
	"strings"
	"time"

	redis "github.com/redis/rueidis"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driverkit"
	"github.com/pawl-go/pawl/redislock"
	"github.com/pawl-go/pawl/redislock/internal/redisengine"
)

// A Target is the contents of a URL.
type Target struct {
	Client       redis.ClientOption
	Options      redisengine.Options
	ProbeScripts bool // ask the server whether it runs scripts
}

// Parse reads a URL. client has the options that do not depend on it.
func Parse(u *url.URL, client redis.ClientOption) (*Target, error) {
	t := &Target{Client: client, Options: redisengine.Apply[redislock.Option](nil)}
	r := driverkit.ReadURL("redis", u)
	t.readServers(r, u.Scheme)
	if prefix, found := r.Text("prefix"); found {
		t.Options.Prefix = prefix
	}
	t.Options.Replicas = r.Number("wait", 0, 0)
	if timeout := r.Duration("wait-timeout", 0, time.Millisecond); timeout > 0 {
		t.Options.ReplicaTimeout = timeout
		if t.Options.Replicas == 0 {
			r.Fail("wait-timeout without wait")
		}
	}
	scripts := r.OneOf("scripts", "auto", "always", "never")
	t.ProbeScripts, t.Options.WithoutScripts = scripts == "auto", scripts == "never"
	t.Options.EvictionAllowed = r.YesNo("allow-eviction", false)
	t.Client.TLSConfig = r.TLS(u.Scheme == "rediss")
	t.Client.Sentinel.TLSConfig = t.Client.TLSConfig
	// The client pings a sentinel only if this dialer says how often. Without that a
	// sentinel that hangs is asked for ever, and the client stays with a master that is gone.
	t.Client.Sentinel.Dialer = t.Client.Dialer
	if r.YesNo("sentinel-auth", false) {
		if u.Scheme != "redis-sentinel" {
			r.Fail("sentinel-auth has no use without redis-sentinel://")
		}
		t.Client.Sentinel.Username, t.Client.Sentinel.Password = t.Client.Username, t.Client.Password
	}
	if err := r.Err(); err != nil {
		return nil, err
	}
	if err := t.Options.Check(u.Scheme == "redis-cluster"); err != nil {
		return nil, driver.BadURL("%v", err)
	}
	return t, nil
}

// readServers reads the addresses of the servers, the login, and the database or master.
func (t *Target) readServers(r *driverkit.URL, scheme string) {
	t.Client.Username, t.Client.Password = r.Login()
	port, database := "6379", r.Path()
	switch scheme {
	case "redis-sentinel":
		port = "26379"
		t.Client.Sentinel.MasterSet, database, _ = strings.Cut(database, "/")
		if t.Client.Sentinel.MasterSet == "" {
			r.Fail("the URL names no master: write redis-sentinel://host1,host2/master")
		}
	case "redis-cluster":
		if database != "" {
			r.Fail("a cluster has one database, and no path in its URL")
		}
	default:
		t.Client.ForceSingleClient = true
	}
	t.Client.InitAddress = r.Hosts(port)
	if t.Client.ForceSingleClient && len(t.Client.InitAddress) > 1 {
		r.Fail("several hosts: write redis-sentinel:// or redis-cluster://")
	}
	if database != "" {
		n, err := strconv.Atoi(database)
		if err != nil || n < 0 {
			r.Fail("the database in the URL's path is not a number")
		}
		t.Client.SelectDB = n
	}
}
