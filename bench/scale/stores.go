package main

import (
	"context"
	"database/sql"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql" // the driver mysql
	_ "github.com/jackc/pgx/v5/stdlib" // the driver pgx

	"github.com/pawl-go/pawl"
	_ "github.com/pawl-go/pawl/engines" // every store's URLs
	"github.com/pawl-go/pawl/internal/testserver"
)

// A store is one kind of store.
type store struct {
	name  string
	local bool // there is no server, and so no link
	start func(t testing.TB, ttl time.Duration) site
}

// A site is a store that was started, empty.
type site struct {
	addrs []string                               // of its servers
	url   func(addrs []string) string            // for clients that reach them at addrs
	count func(ctx context.Context) (int, error) // of keys, rows, nodes or messages, asked without the link
}

// stores are all stores, each as one server unless it is made of several.
var stores = []store{
	{name: "redis", start: func(t testing.TB, _ time.Duration) site { return redis(testserver.Redis(t), "") }},
	{name: "redis-scriptless", start: func(t testing.TB, _ time.Duration) site { return redis(testserver.Valkey(t), "?scripts=never") }},
	{name: "redlock", start: redlock},
	{name: "etcd", start: func(t testing.TB, _ time.Duration) site {
		addr := testserver.NewEtcd(t).Addr()
		return site{[]string{addr}, func(a []string) string { return "etcd://" + a[0] }, countEtcd(addr)}
	}},
	{name: "zookeeper", start: func(t testing.TB, _ time.Duration) site {
		addr := testserver.ZooKeeper(t).Addr()
		return site{[]string{addr}, func(a []string) string { return "zk://" + a[0] }, countZooKeeper(addr)}
	}},
	{name: "nats", start: func(t testing.TB, _ time.Duration) site {
		addr := testserver.NATS(t).Addr()
		return site{[]string{addr}, func(a []string) string { return "nats://" + a[0] }, countNATS(addr)}
	}},
	{name: "postgresql", start: func(t testing.TB, _ time.Duration) site {
		s := testserver.PostgreSQL(t, "-c", "max_connections=5000", "-c", "shared_buffers=256MB")
		url := func(a []string) string { return "postgres://postgres@" + a[0] + "/postgres?sslmode=disable" }
		return inSQL(t, s.Addr(), "pgx", func(a []string) string { return url(a) + "&pool_max_conns=10" }, url([]string{s.Addr()}))
	}},
	{name: "mariadb", start: func(t testing.TB, _ time.Duration) site {
		return mysql(t, testserver.MariaDB(t, "--max-connections=10000"))
	}},
	{name: "mysql", start: func(t testing.TB, _ time.Duration) site {
		// Each connection that has used a temporary table keeps a megabyte of what there may be, by
		// default one gigabyte.
		return mysql(t, testserver.MySQL(t, "--max-connections=10000", "--temptable-max-ram=16G"))
	}},
	{name: "sqlite", local: true, start: sqlite},
}

func storeNames() (all []string) {
	for _, s := range stores {
		all = append(all, s.name)
	}
	return all
}

func storeNamed(name string) store {
	for _, s := range stores {
		if s.name == name {
			return s
		}
	}
	panic("scale: no store " + name)
}

func redis(s *testserver.Server, parameters string) site {
	addr := s.Addr()
	return site{[]string{addr}, func(a []string) string { return "redis://" + a[0] + parameters }, countRedis(addr)}
}

// redlock waits until its servers vote, which they do not before they have run for the
// longest TTL.
func redlock(t testing.TB, ttl time.Duration) site {
	var addrs []string
	for range 3 {
		addrs = append(addrs, testserver.Redis(t).Addr())
	}
	return site{addrs, func(a []string) string { return "redlock://" + strings.Join(a, ",") + "?max-ttl=" + ttl.String() }, countRedis(addrs...)}
}

func mysql(t testing.TB, s *testserver.Server) site {
	execute(t, "mysql", "root@tcp("+s.Addr()+")/", "CREATE DATABASE scale")
	return inSQL(t, s.Addr(), "mysql", func(a []string) string { return "mysql://root@" + a[0] + "/scale" }, "root@tcp("+s.Addr()+")/scale")
}

// inSQL creates the tables.
func inSQL(t testing.TB, addr, driver string, url func([]string) string, dsn string) site {
	c, err := pawl.Open(t.Context(), url([]string{addr}))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Engine().(interface{ Migrate(context.Context) error }).Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return site{[]string{addr}, url, countSQL(driver, dsn)}
}

func execute(t testing.TB, driver, dsn, statement string) {
	db, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(t.Context(), statement); err != nil {
		t.Fatal(err)
	}
}

func sqlite(t testing.TB, _ time.Duration) site {
	folder, err := os.MkdirTemp("", "pawl-sqlite-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	file := filepath.Join(folder, "locks.db")
	return site{nil, func([]string) string { return "sqlite://" + file }, countSQLite(file)}
}
