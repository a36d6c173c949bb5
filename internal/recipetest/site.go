package recipetest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/internal/faultproxy"
	"github.com/pawl-go/pawl/internal/testserver"
	"github.com/pawl-go/pawl/quorum"
	"github.com/pawl-go/pawl/redislock"
	redis "github.com/pawl-go/pawl/redislock/rueidis"
)

// maxTTL is the longest TTL on Redlock.
const maxTTL = 10 * time.Second

// A kind is a kind of store. One more engine is one more of all.
type kind struct {
	name    string
	records bool
	lodger  *lodger // nil: it has no server
	url     func(addrs []string, prefix string) string
	ripe    bool // a new prefix is not served at once
}

// The servers' kinds. All their connections together are many: each test has
// several clients, and each client a few.
var (
	oneRedis   = one(testserver.Redis)
	threeRedis = &lodger{start: three}
	etcd       = one(testserver.Etcd)
	zookeeper  = one(testserver.ZooKeeper)
	postgreSQL = one(testserver.PostgreSQL, "-c", "max_connections=1000").with(postgresURL)
	mariaDB    = one(testserver.MariaDB, "--max-connections=2000").with(mysqlURL)
	mySQL      = one(testserver.MySQL, "--max-connections=2000").with(mysqlURL)
)

var all = []kind{
	{name: "SQLite", records: true},
	{name: "Redis", records: true, lodger: oneRedis, url: func(addrs []string, prefix string) string {
		return "redis://" + addrs[0] + "?prefix=" + prefix
	}},
	{name: "Redlock", lodger: threeRedis, ripe: true, url: func(addrs []string, prefix string) string {
		return "redlock://" + strings.Join(addrs, ",") + "?max-ttl=" + maxTTL.String() + "&prefix=" + prefix
	}},
	{name: "etcd", records: true, lodger: etcd, url: func(addrs []string, prefix string) string {
		return "etcd://" + addrs[0] + "?prefix=" + prefix
	}},
	{name: "ZooKeeper", records: true, lodger: zookeeper, url: func(addrs []string, prefix string) string {
		return "zk://" + addrs[0] + "?prefix=" + prefix
	}},
	{name: "PostgreSQL", records: true, lodger: postgreSQL, url: postgresURL},
	{name: "MariaDB", records: true, lodger: mariaDB, url: mysqlURL},
}

func postgresURL(addrs []string, prefix string) string {
	return "postgres://postgres@" + addrs[0] + "/postgres?sslmode=disable&pool_max_conns=4&prefix=" + prefix
}

// The database is one that every such server has.
func mysqlURL(addrs []string, prefix string) string {
	return "mysql://root@" + addrs[0] + "/mysql?max_conns=4&prefix=" + prefix
}

// kinds are those to test: MySQL, which speaks as MariaDB does and takes long to
// start, only where there is time.
func kinds() []kind {
	if os.Getenv("PAWL_SOAK") == "" {
		return all
	}
	return append(all[:len(all):len(all)], kind{name: "MySQL", records: true, lodger: mySQL, url: mysqlURL})
}

func three(t testing.TB) (all []*testserver.Server) {
	for range 3 {
		all = append(all, testserver.Redis(t))
	}
	return all
}

// A Site is one empty store that several processes can meet in.
type Site struct {
	URL    string
	kind   kind
	addrs  []string
	prefix string
}

// prefixes counts the sites of this process.
var prefixes atomic.Int64

func (k kind) site(t testing.TB) *Site {
	t.Helper()
	s := &Site{kind: k, prefix: fmt.Sprintf("t%d-", prefixes.Add(1))}
	if k.lodger == nil {
		s.URL = "sqlite://" + filepath.Join(t.TempDir(), "locks.db")
		return s
	}
	s.addrs = k.lodger.addrs(t)
	s.URL = k.url(s.addrs, s.prefix)
	if k.ripe {
		ripen(t, s.URL)
	}
	return s
}

// Served reports whether the store is behind a network.
func (s *Site) Served() bool { return s.kind.lodger != nil }

// Through opens clients on the same store by way of proxies, one for each server.
func (s *Site) Through(t testing.TB) (Place, []*faultproxy.Proxy) {
	t.Helper()
	var proxies []*faultproxy.Proxy
	var addrs []string
	for _, addr := range s.addrs {
		p := faultproxy.New(t, addr)
		proxies, addrs = append(proxies, p), append(addrs, p.Addr())
	}
	if s.kind.ripe {
		return s.quorum(addrs), proxies
	}
	return On(s.kind.url(addrs, s.prefix)), proxies
}

// quorum opens clients on the quorum of the site's servers by other addresses: they
// go by the names that everybody else has for them.
func (s *Site) quorum(addrs []string) Place {
	return func(t testing.TB, opts ...pawl.Option) *pawl.Client {
		t.Helper()
		var nodes []quorum.Node
		for i, addr := range addrs {
			client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}, ForceSingleClient: true})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(client.Close)
			engine := redis.New(client, redislock.WithPrefix(s.prefix))
			t.Cleanup(func() { _ = engine.Close() })
			nodes = append(nodes, quorum.Node{Name: s.addrs[i], Engine: engine})
		}
		engine, err := quorum.New(nodes, quorum.WithMaxTTL(maxTTL))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = engine.Close() })
		c := pawl.New(engine, opts...)
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
}

// ripen waits until a quorum's nodes vote, which new ones do only when the longest
// lease that they may have forgotten is over.
func ripen(t testing.TB, url string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		c, err := pawl.Open(ctx, url)
		if err == nil {
			var lease *pawl.Lease
			if lease, err = c.Mutex("ripe").Lock(ctx); err == nil {
				err = lease.Unlock()
			}
			_ = c.Close()
		}
		if err == nil {
			return
		}
		if ctx.Err() != nil {
			t.Fatal(err)
		}
	}
}
