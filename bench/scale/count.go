package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/ncruces/go-sqlite3"
	goredis "github.com/redis/go-redis/v9"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// A counter counts what is in a store, by the store's own client.
type counter = func(ctx context.Context) (int, error)

func countRedis(addrs ...string) counter {
	return func(ctx context.Context) (n int, err error) {
		for _, addr := range addrs {
			c := goredis.NewClient(&goredis.Options{Addr: addr})
			keys, e := c.DBSize(ctx).Result()
			n, err = n+int(keys), errors.Join(err, e, c.Close())
		}
		return n, err
	}
}

func countEtcd(addr string) counter {
	return func(ctx context.Context) (int, error) {
		c, err := clientv3.New(clientv3.Config{Endpoints: []string{addr}, Logger: zap.NewNop()})
		if err != nil {
			return 0, err
		}
		defer c.Close()
		r, err := c.Get(ctx, "", clientv3.WithPrefix(), clientv3.WithCountOnly())
		if err != nil {
			return 0, err
		}
		return int(r.Count), nil
	}
}

// countZooKeeper asks the server for its figures, as people do with netcat. The client's
// own reader does not understand what 3.8 answers.
func countZooKeeper(addr string) counter {
	return func(ctx context.Context) (n int, err error) {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
		if err != nil {
			return 0, err
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(time.Minute))
		if _, err := io.WriteString(conn, "srvr"); err != nil {
			return 0, err
		}
		answer, err := io.ReadAll(conn)
		if err != nil {
			return 0, err
		}
		_, nodes, _ := strings.Cut(string(answer), "Node count: ")
		if _, err := fmt.Sscan(nodes, &n); err != nil {
			return 0, fmt.Errorf("srvr answered %q", answer)
		}
		return n, nil
	}
}

func countNATS(addr string) counter {
	return func(ctx context.Context) (n int, err error) {
		conn, err := nats.Connect(addr)
		if err != nil {
			return 0, err
		}
		defer conn.Close()
		js, err := jetstream.New(conn)
		if err != nil {
			return 0, err
		}
		streams := js.ListStreams(ctx)
		for s := range streams.Info() {
			n += int(s.State.Msgs)
		}
		return n, streams.Err()
	}
}

// countSQL counts the rows of pawl's tables.
func countSQL(driver, dsn string) counter {
	return func(ctx context.Context) (int, error) {
		db, err := sql.Open(driver, dsn)
		if err != nil {
			return 0, err
		}
		defer db.Close()
		rows, err := db.QueryContext(ctx, "SELECT table_name FROM information_schema.tables WHERE table_name LIKE 'pawl%'")
		if err != nil {
			return 0, err
		}
		defer rows.Close()
		var tables []string
		for rows.Next() {
			var table string
			if err := rows.Scan(&table); err != nil {
				return 0, err
			}
			tables = append(tables, table)
		}
		if err := rows.Err(); err != nil {
			return 0, err
		}
		return sum(tables, func(table string) (n int, err error) {
			return n, db.QueryRowContext(ctx, "SELECT COUNT(*) FROM "+table).Scan(&n)
		})
	}
}

func countSQLite(file string) counter {
	return func(context.Context) (int, error) {
		db, err := sqlite3.OpenFlags("file:"+file, sqlite3.OPEN_READONLY|sqlite3.OPEN_URI)
		if err != nil {
			return 0, err
		}
		defer db.Close()
		tables, err := texts(db, "SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE 'pawl%'")
		if err != nil {
			return 0, err
		}
		return sum(tables, func(table string) (n int, err error) {
			all, err := texts(db, "SELECT COUNT(*) FROM "+table)
			if err == nil {
				_, err = fmt.Sscan(all[0], &n)
			}
			return n, err
		})
	}
}

// texts returns the first column of a query.
func texts(db *sqlite3.Conn, query string) (all []string, err error) {
	s, _, err := db.Prepare(query)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	for s.Step() {
		all = append(all, s.ColumnText(0))
	}
	return all, s.Err()
}

// sum adds what f returns of each table. None at all is an error: their names have changed.
func sum(tables []string, f func(table string) (int, error)) (n int, err error) {
	if len(tables) == 0 {
		return 0, errors.New("no table's name begins with pawl")
	}
	for _, table := range tables {
		rows, e := f(table)
		n, err = n+rows, errors.Join(err, e)
	}
	return n, err
}
