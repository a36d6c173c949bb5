package engines_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	goredis "github.com/redis/go-redis/v9"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/internal/recipetest"
	"github.com/pawl-go/pawl/internal/testserver"
)

// An erasable store is one whose data can be removed beneath its clients.
type erasable func(t *testing.T) (url string, erase func(ctx context.Context) error)

var erasables = map[string]erasable{
	"Redis": erasableRedis, "etcd": erasableEtcd, "ZooKeeper": erasableZooKeeper, "NATS": erasableNATS,
	"PostgreSQL": erasablePostgreSQL, "MariaDB": erasableMariaDB, "SQLite": erasableSQLite,
}

// What an operator removes beneath a holder lets another in; the first learns of it, is not
// confirmed any more, and has the lower token.
func TestAHoldWhoseDataWasRemovedIsNotConfirmedBesideAnother(t *testing.T) {
	t.Parallel()
	for name, store := range erasables {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			url, erase := store(t)
			ana, bob := recipetest.On(url)(t, pawl.WithTTL(20*time.Second)), recipetest.On(url)(t, pawl.WithTTL(20*time.Second))
			first, err := ana.Mutex("job").Lock(ctx)
			first = taken(t, first, err)
			if err := erase(ctx); err != nil {
				t.Fatal(err)
			}
			second, err := bob.Mutex("job").Lock(ctx)
			second = taken(t, second, err)
			if err := first.Confirm(ctx); !errors.Is(err, pawl.ErrLost) {
				t.Errorf("Confirm beside another holder: %v", err)
			}
			<-first.Context().Done()
			says(t, "the loss", context.Cause(first.Context()), pawl.ErrLost)
			if second.Token() <= first.Token() {
				t.Errorf("the token went from %d to %d", first.Token(), second.Token())
			}
			if err := first.Unlock(); err == nil {
				t.Error("what was lost is unlocked without an error")
			}
			if err := second.Confirm(ctx); err != nil { // ana's Unlock has not taken it
				t.Errorf("the second holder: %v", err)
			}
			if err := second.Unlock(); err != nil {
				t.Error(err)
			}
			third, err := ana.Mutex("job").Lock(ctx)
			if third = taken(t, third, err); third.Token() <= second.Token() {
				t.Errorf("the token went from %d to %d", second.Token(), third.Token())
			}
			if err := third.Unlock(); err != nil {
				t.Error(err)
			}
		})
	}
}

// A client that was refused for its limit may be the first at a store that has lost its
// data. What it leaves there does not keep the others out when it has gone.
func TestARefusedClientAtAStoreThatWasEmptiedLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	for name, store := range erasables {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			url, erase := store(t)
			ana, bob := recipetest.On(url)(t, pawl.WithTTL(20*time.Second)), recipetest.On(url)(t, pawl.WithTTL(20*time.Second))
			first, err := ana.Semaphore("s", 3).Acquire(ctx, 1)
			first = taken(t, first, err)
			says(t, "another limit", refusedBy(bob.Semaphore("s", 5).Acquire(ctx, 1)), pawl.ErrLimit)
			if err := erase(ctx); err != nil {
				t.Fatal(err)
			}
			second, err := bob.Semaphore("s", 5).Acquire(ctx, 1)
			second = taken(t, second, err)
			<-first.Context().Done()
			says(t, "the first", context.Cause(first.Context()), pawl.ErrLost)
			if err := refusedBy(ana.Semaphore("s", 3).TryAcquire(ctx, 1)); !errors.Is(err, pawl.ErrLimit) && second.Err() == nil {
				t.Errorf("the first limit: %v", err)
			}
			// What says that bob's session lives may be part of what was removed: then he is
			// told of one loss more.
			if err := second.Unlock(); err != nil && !errors.Is(err, pawl.ErrLost) {
				t.Error(err)
			}
			third, err := ana.Semaphore("s", 3).Acquire(ctx, 3)
			third = taken(t, third, err)
			if err := third.Unlock(); err != nil {
				t.Error(err)
			}
		})
	}
}

func refusedBy(l *pawl.Lease, err error) error {
	if err == nil {
		return errors.Join(errors.New("it was granted"), l.Unlock())
	}
	return err
}

func erasableRedis(t *testing.T) (string, func(context.Context) error) {
	addr := testserver.Redis(t).Addr()
	admin := goredis.NewClient(&goredis.Options{Addr: addr})
	t.Cleanup(func() { _ = admin.Close() })
	return "redis://" + addr, func(ctx context.Context) error { return admin.FlushAll(ctx).Err() }
}

func erasableEtcd(t *testing.T) (string, func(context.Context) error) {
	addr := testserver.Etcd(t).Addr()
	admin, err := clientv3.New(clientv3.Config{Endpoints: []string{addr}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = admin.Close() })
	return "etcd://" + addr, func(ctx context.Context) error {
		_, err := admin.Delete(ctx, "\x00", clientv3.WithFromKey())
		return err
	}
}

func erasableZooKeeper(t *testing.T) (string, func(context.Context) error) {
	addr := testserver.ZooKeeper(t).Addr()
	admin, _, err := zk.Connect([]string{addr}, 10*time.Second, zk.WithLogInfo(false))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(admin.Close)
	var erase func(path string) error
	erase = func(path string) error {
		children, _, err := admin.Children(path)
		for _, child := range children {
			err = errors.Join(err, erase(path+"/"+child))
		}
		return errors.Join(err, admin.Delete(path, -1))
	}
	return "zk://" + addr, func(context.Context) error { return erase("/pawl") }
}

func erasableNATS(t *testing.T) (string, func(context.Context) error) {
	url := "nats://" + testserver.NATS(t).Addr()
	conn, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	return url, func(ctx context.Context) error { return js.DeleteStream(ctx, "KV_pawl") } // no part of it may be purged
}

func erasablePostgreSQL(t *testing.T) (string, func(context.Context) error) {
	url := "postgres://postgres@" + testserver.PostgreSQL(t).Addr() + "/postgres?sslmode=disable"
	return erasableTables(t, url, "pgx", url)
}

func erasableMariaDB(t *testing.T) (string, func(context.Context) error) {
	addr := testserver.MariaDB(t).Addr()
	return erasableTables(t, "mysql://root@"+addr+"/mysql", "mysql", "root@tcp("+addr+")/mysql")
}

func erasableSQLite(t *testing.T) (string, func(context.Context) error) {
	path := t.TempDir() + "/locks.db"
	return "sqlite://" + path, func(ctx context.Context) error {
		out, err := exec.CommandContext(ctx, "sqlite3", path, "PRAGMA busy_timeout = 5000; DELETE FROM pawl_head; DELETE FROM pawl_claim").CombinedOutput()
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	}
}

// erasableTables makes the tables of a database, and a statement that empties them.
func erasableTables(t *testing.T, url, driver, dsn string) (string, func(context.Context) error) {
	type migrator interface{ Migrate(context.Context) error }
	if err := recipetest.On(url)(t).Engine().(migrator).Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return url, func(ctx context.Context) error {
		for table := range strings.FieldsSeq("pawl_head pawl_claim") {
			if _, err := db.ExecContext(ctx, "DELETE FROM "+table); err != nil {
				return err
			}
		}
		return nil
	}
}
