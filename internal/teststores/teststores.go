// Package teststores starts every store that several processes can share as people run it:
// with several servers where it is made for that.
package teststores

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pawl-go/pawl"
	_ "github.com/pawl-go/pawl/engines" // registers the schemes
	"github.com/pawl-go/pawl/internal/recipetest"
	"github.com/pawl-go/pawl/internal/testserver"
)

// A Store is one kind of store.
type Store struct {
	Name  string
	Setup string // which servers, in words

	// Start starts it, empty, for as long as the test runs. It returns the store's URL and
	// its version.
	Start func(t testing.TB) (url, version string)
}

// All returns all stores.
func All() []Store {
	return []Store{
		{"Redis", "one server", redis},
		{"Valkey", "one server", valkey},
		{"Redis Sentinel", "a master, two replicas, three sentinels", sentinel},
		{"Redis Cluster", "three masters", cluster},
		{"Redlock", "three Redis servers", redlock},
		{"etcd", "three members", etcd},
		{"ZooKeeper", "three servers", zookeeper},
		{"NATS", "three servers", nats},
		{"PostgreSQL", "one server", postgres},
		{"MariaDB", "one server", mariadb},
		{"MySQL", "one server", mysql},
		{"SQLite", "one file", sqlite},
	}
}

func redis(t testing.TB) (url, version string) {
	s := testserver.Redis(t)
	return "redis://" + s.Addr(), redisVersion(t, s.Addr(), "redis_version")
}

func valkey(t testing.TB) (url, version string) {
	s := testserver.Valkey(t)
	return "redis://" + s.Addr(), redisVersion(t, s.Addr(), "valkey_version")
}

func sentinel(t testing.TB) (url, version string) {
	s := testserver.RedisSentinel(t)
	return "redis-sentinel://" + strings.Join(s.Addrs(), ",") + "/" + testserver.SentinelName, redisVersion(t, s.Nodes[0].Addr(), "redis_version")
}

func cluster(t testing.TB) (url, version string) {
	s := testserver.RedisCluster(t)
	return "redis-cluster://" + strings.Join(s.Addrs(), ","), redisVersion(t, s.Nodes[0].Addr(), "redis_version")
}

// redlock has a short longest TTL: for that long new nodes do not vote.
func redlock(t testing.TB) (url, version string) {
	var addrs []string
	for range 3 {
		addrs = append(addrs, testserver.Redis(t).Addr())
	}
	url = "redlock://" + strings.Join(addrs, ",") + "?max-ttl=5s"
	recipetest.AwaitVotes(t, url)
	return url, redisVersion(t, addrs[0], "redis_version")
}

func etcd(t testing.TB) (url, version string) {
	c := testserver.NewEtcds(t, 3, nil)
	return "etcd://" + addrs(c.Members), etcdVersion(t, c.Members[0].Addr())
}

func zookeeper(t testing.TB) (url, version string) {
	e := testserver.ZooKeepers(t, 3, nil)
	return "zk://" + addrs(e.Nodes), zookeeperVersion(t, e.Nodes[0].Addr())
}

func nats(t testing.TB) (url, version string) {
	c := testserver.NATSServers(t, 3, nil)
	return "nats://" + addrs(c.Members) + "/locks?replicas=3", natsVersion(t, c.Members[0].Addr())
}

func postgres(t testing.TB) (url, version string) {
	s := testserver.PostgreSQL(t)
	url = "postgres://postgres@" + s.Addr() + "/postgres?sslmode=disable"
	migrate(t, url)
	return url, postgresVersion(t, url)
}

func mariadb(t testing.TB) (url, version string) { return mysqlLike(t, testserver.MariaDB(t)) }
func mysql(t testing.TB) (url, version string)   { return mysqlLike(t, testserver.MySQL(t)) }

// mysqlLike uses the database mysql, which every such server has.
func mysqlLike(t testing.TB, s *testserver.Server) (url, version string) {
	url = "mysql://root@" + s.Addr() + "/mysql"
	migrate(t, url)
	return url, mysqlVersion(t, s.Addr())
}

func sqlite(t testing.TB) (url, version string) {
	dir, err := os.MkdirTemp("", "pawl-sqlite-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return "sqlite://" + filepath.Join(dir, "locks.db"), sqliteVersion()
}

func addrs(servers []*testserver.Server) string {
	var all []string
	for _, s := range servers {
		all = append(all, s.Addr())
	}
	return strings.Join(all, ",")
}

// migrate creates the tables of an SQL store.
func migrate(t testing.TB, url string) {
	t.Helper()
	c, err := pawl.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Engine().(interface{ Migrate(context.Context) error }).Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
}
