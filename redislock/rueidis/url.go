package rueidis

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

// A target is the contents of a URL.
type target struct {
	client       redis.ClientOption
	options      redisengine.Options
	probeScripts bool // ask the server whether it runs scripts
}

// parse reads a URL. client has the options that do not depend on it.
func parse(u *url.URL, client redis.ClientOption) (*target, error) {
	t := &target{client: client, options: redisengine.Apply[redislock.Option](nil)}
	r := driverkit.ReadURL("redis", u)
	t.readServers(r, u.Scheme)
	if prefix, found := r.Text("prefix"); found {
		t.options.Prefix = prefix
	}
	t.options.Replicas = r.Number("wait", 0, 0)
	if timeout := r.Duration("wait-timeout", 0, time.Millisecond); timeout > 0 {
		t.options.ReplicaTimeout = timeout
		if t.options.Replicas == 0 {
			r.Fail("wait-timeout without wait")
		}
	}
	scripts := r.OneOf("scripts", "auto", "always", "never")
	t.probeScripts, t.options.WithoutScripts = scripts == "auto", scripts == "never"
	t.options.EvictionAllowed = r.YesNo("allow-eviction", false)
	t.client.TLSConfig = r.TLS(u.Scheme == "rediss")
	t.client.Sentinel.TLSConfig = t.client.TLSConfig
	if r.YesNo("sentinel-auth", false) {
		t.client.Sentinel.Username, t.client.Sentinel.Password = t.client.Username, t.client.Password
	}
	if err := r.Err(); err != nil {
		return nil, err
	}
	if err := t.options.Check(u.Scheme == "redis-cluster"); err != nil {
		return nil, driver.BadURL("%v", err)
	}
	return t, nil
}

// readServers reads the addresses of the servers, the login, and the database or master.
func (t *target) readServers(r *driverkit.URL, scheme string) {
	t.client.Username, t.client.Password = r.Login()
	port, database := "6379", r.Path()
	switch scheme {
	case "redis-sentinel":
		port = "26379"
		t.client.Sentinel.MasterSet, database, _ = strings.Cut(database, "/")
		if t.client.Sentinel.MasterSet == "" {
			r.Fail("the URL names no master: write redis-sentinel://host1,host2/master")
		}
	case "redis-cluster":
		if database != "" {
			r.Fail("a cluster has one database, and no path in its URL")
		}
	default:
		t.client.ForceSingleClient = true
	}
	t.client.InitAddress = r.Hosts(port)
	if t.client.ForceSingleClient && len(t.client.InitAddress) > 1 {
		r.Fail("several hosts: write redis-sentinel:// or redis-cluster://")
	}
	if database != "" {
		n, err := strconv.Atoi(database)
		if err != nil || n < 0 {
			r.Fail("the database in the URL's path is not a number")
		}
		t.client.SelectDB = n
	}
}
