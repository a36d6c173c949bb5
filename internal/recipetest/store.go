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

// A storeKind is one kind of store. A new engine is one more element of all.
type storeKind struct {
	name      string
	records   bool
	server    *sharedServer // nil: it has no server
	url       func(addrs []string, prefix string) string
	slowStart bool // the nodes of a new quorum do not vote at once
}

// The servers. They allow many connections: each test has several clients, and each
// client a few.
var (
	oneRedis   = one(testserver.Redis)
	threeRedis = &sharedServer{start: three}
	etcd       = one(testserver.Etcd)
	nats       = one(testserver.NATS)
	zookeeper  = one(testserver.ZooKeeper)
	postgreSQL = one(testserver.PostgreSQL, "-c", "max_connections=1000").withTables(postgresURL)
	mariaDB    = one(testserver.MariaDB, "--max-connections=2000").withTables(mysqlURL)
	mySQL      = one(testserver.MySQL, "--max-connections=2000").withTables(mysqlURL)
)

var all = []storeKind{
	{name: "SQLite", records: true},
	{name: "Redis", records: true, server: oneRedis, url: func(addrs []string, prefix string) string {
		return "redis://" + addrs[0] + "?prefix=" + prefix
	}},
	{name: "Redlock", server: threeRedis, slowStart: true, url: func(addrs []string, prefix string) string {
		return "redlock://" + strings.Join(addrs, ",") + "?max-ttl=" + maxTTL.String() + "&prefix=" + prefix
	}},
	{name: "etcd", records: true, server: etcd, url: func(addrs []string, prefix string) string {
		return "etcd://" + addrs[0] + "?prefix=" + prefix
	}},
	{name: "NATS", records: true, server: nats, url: func(addrs []string, prefix string) string {
		return "nats://" + addrs[0] + "/" + prefix
	}},
	{name: "ZooKeeper", records: true, server: zookeeper, url: func(addrs []string, prefix string) string {
		return "zk://" + addrs[0] + "?prefix=" + prefix
	}},
	{name: "PostgreSQL", records: true, server: postgreSQL, url: postgresURL},
	{name: "MariaDB", records: true, server: mariaDB, url: mysqlURL},
}

func postgresURL(addrs []string, prefix string) string {
	return "postgres://postgres@" + addrs[0] + "/postgres?sslmode=disable&pool_max_conns=4&prefix=" + prefix
}

// mysqlURL uses the database mysql, which every such server has.
func mysqlURL(addrs []string, prefix string) string {
	return "mysql://root@" + addrs[0] + "/mysql?max_conns=4&prefix=" + prefix
}

// kinds returns the kinds to test: MySQL, which has MariaDB's protocol and takes long
// to start, only in a soak test.
func kinds() []storeKind {
	if os.Getenv("PAWL_SOAK") == "" {
		return all
	}
	return append(all[:len(all):len(all)], storeKind{name: "MySQL", records: true, server: mySQL, url: mysqlURL})
}

func three(t testing.TB) (all []*testserver.Server) {
	for range 3 {
		all = append(all, testserver.Redis(t))
	}
	return all
}

// A Store is one store that several processes can share, empty when the test began.
type Store struct {
	URL    string
	kind   storeKind
	addrs  []string
	prefix string
}

// prefixes counts the stores of this process.
var prefixes atomic.Int64

func (k storeKind) store(t testing.TB) *Store {
	t.Helper()
	s := &Store{kind: k, prefix: fmt.Sprintf("t%d-", prefixes.Add(1))}
	if k.server == nil {
		s.URL = "sqlite://" + filepath.Join(t.TempDir(), "locks.db")
		return s
	}
	s.addrs = k.server.addrs(t)
	s.URL = k.url(s.addrs, s.prefix)
	if k.slowStart {
		AwaitVotes(t, s.URL)
	}
	return s
}

// Served reports whether the store is behind a network.
func (s *Store) Served() bool { return s.kind.server != nil }

// Through opens clients on the same store by way of proxies, one for each server.
func (s *Store) Through(t testing.TB) (Opener, []*faultproxy.Proxy) {
	t.Helper()
	var proxies []*faultproxy.Proxy
	var addrs []string
	for _, addr := range s.addrs {
		p := faultproxy.New(t, addr)
		proxies, addrs = append(proxies, p), append(addrs, p.Addr())
	}
	if s.kind.slowStart {
		return s.quorum(addrs), proxies
	}
	return On(s.kind.url(addrs, s.prefix)), proxies
}

// quorum opens clients on the quorum of the store's servers by the addresses of
// proxies. The nodes keep the names that clients without proxies use for them.
func (s *Store) quorum(addrs []string) Opener {
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

// AwaitVotes waits until a quorum's nodes vote. New nodes do not until the longest
// lease that they may have forgotten has ended.
func AwaitVotes(t testing.TB, url string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		c, err := pawl.Open(ctx, url, pawl.WithTTL(time.Second))
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
