//go:build unix

package engines_test

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver pgx of database/sql
	goredis "github.com/redis/go-redis/v9"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/internal/recipetest"
	"github.com/pawl-go/pawl/internal/testserver"
)

// A revocable store has the user ana, whose right to write can be revoked.
type revocable func(t *testing.T) (url string, revoke func(ctx context.Context) error)

// A lease that is lost because a right was revoked says that, and not that the store was
// silent.
func TestALeaseWhoseRightWasRevokedSaysSo(t *testing.T) {
	t.Parallel()
	for name, store := range map[string]revocable{
		"Redis": revocableRedis, "etcd": revocableEtcd, "ZooKeeper": revocableZooKeeper, "NATS": revocableNATS,
		"PostgreSQL": revocablePostgreSQL, "MariaDB": revocableMariaDB,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, revoke := store(t)
			c, err := pawl.Open(t.Context(), url, pawl.WithTTL(6*time.Second))
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			l, err := c.Mutex("revoked").Lock(t.Context())
			l = taken(t, l, err)
			if err := revoke(t.Context()); err != nil {
				t.Fatal(err)
			}
			<-l.Context().Done()
			err = context.Cause(l.Context())
			says(t, "the loss", err, pawl.ErrLost)
			says(t, "the loss", err, pawl.ErrDenied)
			if strings.Contains(err.Error(), "did not answer") {
				t.Errorf("%v", err)
			}
		})
	}
}

func revocableRedis(t *testing.T) (string, func(context.Context) error) {
	addr := testserver.Redis(t).Addr()
	admin := goredis.NewClient(&goredis.Options{Addr: addr})
	t.Cleanup(func() { _ = admin.Close() })
	set := func(ctx context.Context, rules ...any) error {
		return admin.Do(ctx, append([]any{"ACL", "SETUSER", "ana"}, rules...)...).Err()
	}
	if err := set(t.Context(), "on", ">word", "+@all", "~*", "&*"); err != nil {
		t.Fatal(err)
	}
	return "redis://ana:word@" + addr, func(ctx context.Context) error { return set(ctx, "resetkeys") }
}

func revocableEtcd(t *testing.T) (string, func(context.Context) error) {
	addr, ctx := testserver.Etcd(t).Addr(), t.Context()
	admin := func(user, password string) *clientv3.Client {
		c, err := clientv3.New(clientv3.Config{Endpoints: []string{addr}, Username: user, Password: password, Logger: zap.NewNop()})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	must := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	c, end := admin("", ""), clientv3.GetPrefixRangeEnd("pawl/")
	for _, user := range []string{"root", "ana"} {
		must(c.UserAdd(ctx, user, "word"))
		must(c.RoleAdd(ctx, user))
		must(c.UserGrantRole(ctx, user, user))
	}
	must(c.RoleGrantPermission(ctx, "ana", "pawl/", end, clientv3.PermissionType(clientv3.PermReadWrite)))
	must(c.AuthEnable(ctx))
	c = admin("root", "word")
	return "etcd://ana:word@" + addr, func(ctx context.Context) error {
		_, err := c.RoleRevokePermission(ctx, "ana", "pawl/", end)
		return err
	}
}

func revocableZooKeeper(t *testing.T) (string, func(context.Context) error) {
	addr := testserver.ZooKeeper(t).Addr()
	admin, _, err := zk.Connect([]string{addr}, 10*time.Second, zk.WithLogInfo(false))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(admin.Close)
	return "zk://ana:word@" + addr, func(context.Context) error {
		_, err := admin.SetACL("/pawl", zk.DigestACL(zk.PermAll, "root", "word"), -1)
		return err
	}
}

func revocableNATS(t *testing.T) (string, func(context.Context) error) {
	users := func(right string) string {
		return `authorization { users: [{user: root, password: word}, {user: ana, password: word` + right + `}] }`
	}
	server := testserver.NATS(t, users(""))
	config := filepath.Join(server.Dir(), "nats.conf")
	return "nats://ana:word@" + server.Addr(), func(context.Context) error {
		text, err := os.ReadFile(config)
		if err != nil {
			return err
		}
		text = []byte(strings.Replace(string(text), users(""), users(`, permissions: {publish: {deny: "$KV.>"}}`), 1))
		if err := os.WriteFile(config, text, 0o600); err != nil {
			return err
		}
		return syscall.Kill(server.PID(), syscall.SIGHUP)
	}
}

func revocablePostgreSQL(t *testing.T) (string, func(context.Context) error) {
	addr := testserver.PostgreSQL(t).Addr()
	url := func(user string) string { return "postgres://" + user + "@" + addr + "/postgres?sslmode=disable" }
	return revocableTables(t, url, "postgres", "pgx", url("postgres"), "ana", "CREATE ROLE ana LOGIN")
}

func revocableMariaDB(t *testing.T) (string, func(context.Context) error) {
	addr := testserver.MariaDB(t).Addr()
	url := func(user string) string { return "mysql://" + user + "@" + addr + "/mysql" }
	return revocableTables(t, url, "root", "mysql", "root@tcp("+addr+")/mysql", "ana@'127.0.0.1'", "CREATE USER ana@'127.0.0.1'")
}

// revocableTables makes the tables of a database as its owner, and a user who has rights on
// them.
func revocableTables(t *testing.T, url func(user string) string, owner, driver, dsn, user, create string) (string, func(context.Context) error) {
	type migrator interface{ Migrate(context.Context) error }
	if err := recipetest.On(url(owner))(t).Engine().(migrator).Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	onEach := func(ctx context.Context, statement string) error {
		for _, table := range []string{"pawl_meta", "pawl_head", "pawl_claim", "pawl_record"} {
			if _, err := db.ExecContext(ctx, fmt.Sprintf(statement, table)); err != nil {
				return err
			}
		}
		return nil
	}
	if _, err := db.ExecContext(t.Context(), create); err != nil {
		t.Fatal(err)
	}
	if err := onEach(t.Context(), "GRANT SELECT, INSERT, UPDATE, DELETE ON %s TO "+user); err != nil {
		t.Fatal(err)
	}
	return url("ana"), func(ctx context.Context) error { return onEach(ctx, "REVOKE UPDATE ON %s FROM "+user) }
}
