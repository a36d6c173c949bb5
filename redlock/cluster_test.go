package redlock_test

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	redis "github.com/redis/rueidis"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/faultproxy"
	"github.com/pawl-go/pawl/internal/testserver"
)

// A cluster is the servers of a quorum, each behind a proxy.
type cluster struct {
	servers []*testserver.Server
	proxies []*faultproxy.Proxy
	prefix  string // of the keys; "": the default
	query   string

	mu      sync.Mutex           // guards what follows
	clients map[int]redis.Client // by server, without the proxies
}

// shortMaxTTL is the URL query of tests with short leases.
const shortMaxTTL = "max-ttl=6s"

// prefixes counts the prefixes that newPrefix has returned.
var prefixes atomic.Int64

// newPrefix returns a prefix of keys that no other test uses on the shared servers.
func newPrefix() string { return fmt.Sprintf("test%d:", prefixes.Add(1)) }

// newCluster returns a cluster on servers that other tests use as well, with other keys.
// Tests that stop, empty or configure servers use newOwnCluster.
func newCluster(t *testing.T, n int, query string) *cluster {
	t.Helper()
	prefix := newPrefix()
	f := &cluster{servers: sharedServers(t, n), prefix: prefix, query: query + "&prefix=" + prefix}
	f.addProxies(t)
	f.waitForAge(t)
	return f
}

// newOwnCluster returns a cluster on servers that no other test uses.
func newOwnCluster(t *testing.T, n int, query string) *cluster {
	t.Helper()
	f := &cluster{servers: servers(t, n), query: query}
	f.addProxies(t)
	f.waitForAge(t)
	return f
}

// addProxies puts a proxy before each server.
func (f *cluster) addProxies(t *testing.T) {
	t.Helper()
	for _, s := range f.servers {
		f.proxies = append(f.proxies, faultproxy.New(t, s.Addr()))
	}
}

// waitForAge waits until the servers have been running for max-ttl: younger servers may
// just have lost their data, and do not vote.
func (f *cluster) waitForAge(t *testing.T) {
	t.Helper()
	query, err := url.ParseQuery(f.query)
	if err != nil {
		t.Fatal(err)
	}
	ttl, err := time.ParseDuration(query.Get("max-ttl"))
	if err != nil {
		t.Fatal(err)
	}
	up := regexp.MustCompile(`uptime_in_seconds:(\d+)`)
	for i := range f.servers {
		for {
			info, err := f.at(t, i, "INFO", "server").ToString()
			m := up.FindStringSubmatch(info)
			if err != nil || m == nil {
				t.Fatalf("server %d: INFO returns %q, %v", i, info, err)
			}
			seconds, _ := strconv.Atoi(m[1]) // digits
			left := ttl + ttl/50 + 2*time.Millisecond - time.Duration(seconds)*time.Second
			if left < 0 {
				break
			}
			time.Sleep(min(left+time.Millisecond, time.Second)) // uptime is in whole seconds
		}
	}
}

func (f *cluster) hosts() (all []string) {
	for _, p := range f.proxies {
		all = append(all, p.Addr())
	}
	return all
}

// url returns the URL of a quorum on these hosts.
func (f *cluster) url(hosts ...string) string {
	return "redlock://" + strings.Join(hosts, ",") + "?" + f.query
}

// key returns the name of a key with the cluster's prefix.
func (f *cluster) key(of string) string { return cmp.Or(f.prefix, "pawl:") + of }

// client opens a client of its own, as another process would.
func (f *cluster) client(t *testing.T, opts ...pawl.Option) *pawl.Client {
	t.Helper()
	c, err := pawl.Open(t.Context(), f.url(f.hosts()...), opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// engine opens an engine of its own, as another process would.
func (f *cluster) engine(t *testing.T) driver.Engine {
	t.Helper()
	e := open(t, f.hosts(), f.query)
	t.Cleanup(func() { _ = e.Close() })
	return e
}

// session opens a session on an engine of its own.
func (f *cluster) session(t *testing.T, id string, ttl time.Duration) driver.Session {
	t.Helper()
	return openSession(t, f.engine(t), id, ttl)
}

// at sends one command to one server, not through its proxy.
func (f *cluster) at(t *testing.T, i int, words ...string) redis.RedisResult {
	t.Helper()
	c, err := f.direct(t, i)
	if err != nil {
		t.Fatal(err)
	}
	return c.Do(t.Context(), c.B().Arbitrary(words...).Build())
}

// direct returns a client of one server that is kept for the test: opening one costs as
// much as a hundred commands.
func (f *cluster) direct(t *testing.T, i int) (redis.Client, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if c := f.clients[i]; c != nil {
		return c, nil
	}
	c, err := redis.NewClient(small(f.servers[i].Addr()))
	if err != nil {
		return nil, err
	}
	if f.clients == nil {
		f.clients = map[int]redis.Client{}
	}
	f.clients[i] = c
	t.Cleanup(c.Close)
	return c, nil
}

// small returns options of a client whose connections take little memory and time.
func small(addr string) redis.ClientOption {
	return redis.ClientOption{
		InitAddress: []string{addr}, ForceSingleClient: true, DisableCache: true,
		RingScaleEachConn: 8, ReadBufferEachConn: 32 << 10, WriteBufferEachConn: 32 << 10,
	}
}

// votes reports whether a server votes. The membership record alone does not show it: a
// server that restarted with an older state has one that says so.
func (f *cluster) votes(t *testing.T, i int) bool {
	t.Helper()
	record, err := f.at(t, i, "HMGET", f.key("\x01q"), "votes", "run").AsStrSlice()
	if err != nil || len(record) != 2 || record[0] != "1" || record[1] == "" {
		return false
	}
	info, err := f.at(t, i, "INFO", "server").ToString()
	return err == nil && strings.Contains(info, "run_id:"+record[1])
}

// until waits until ok reports true.
func until(t *testing.T, limit time.Duration, what string, ok func() bool) {
	t.Helper()
	for start := time.Now(); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Since(start) > limit {
			t.Fatalf("after %v: not %s", limit, what)
		}
	}
}

func lock(t *testing.T, c *pawl.Client, name string) *pawl.Lease {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	lease, err := c.Mutex(name).Lock(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return lease
}

func unlock(t *testing.T, l *pawl.Lease) {
	t.Helper()
	if err := l.Unlock(); err != nil {
		t.Errorf("Unlock: %v", err)
	}
}

// holding counts the servers on which a name is held.
func (f *cluster) holding(t *testing.T, name string) (n int) {
	t.Helper()
	for i := range f.servers {
		if there, err := f.at(t, i, "EXISTS", f.key(name)).ToInt64(); err == nil && there == 1 {
			n++
		}
	}
	return n
}

// newSavedCluster returns a cluster of servers that restart with the state of their last
// SAVE, and lose what came after it.
func newSavedCluster(t *testing.T, n int, query string) *cluster {
	t.Helper()
	f := &cluster{query: query}
	for range n {
		f.servers = append(f.servers, testserver.Redis(t, "--dbfilename", "dump.rdb"))
	}
	f.addProxies(t)
	f.waitForAge(t)
	return f
}

// servers starts n independent Redis servers.
func servers(t testing.TB, n int) (all []*testserver.Server) {
	t.Helper()
	for range n {
		all = append(all, testserver.Redis(t))
	}
	return all
}

func addrs(all []*testserver.Server) (hosts []string) {
	for _, s := range all {
		hosts = append(hosts, s.Addr())
	}
	return hosts
}

// open opens an engine by URL.
func open(t *testing.T, hosts []string, query string) driver.Engine {
	t.Helper()
	opener, ok := driver.Lookup("redlock")
	if !ok {
		t.Fatal("redlock: is not registered")
	}
	u, err := url.Parse("redlock://" + strings.Join(hosts, ",") + "?" + query)
	if err != nil {
		t.Fatal(err)
	}
	e, err := opener(t.Context(), u)
	if err != nil {
		t.Fatal(err)
	}
	return e
}
