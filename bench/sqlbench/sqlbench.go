// Package sqlbench measures locks in databases that write to disk before they
// answer, compared with bare updates of a row.
package sqlbench

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql" // the driver mysql
	_ "github.com/jackc/pgx/v5/stdlib" // the driver pgx

	"github.com/pawl-go/pawl/bench/compare"
	"github.com/pawl-go/pawl/bench/pawlclient"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/testserver"
	_ "github.com/pawl-go/pawl/sqllock/mysql"    // mysql:
	_ "github.com/pawl-go/pawl/sqllock/postgres" // postgres:
)

// A base is one database.
type base struct {
	driver, dsn string // for database/sql
	url         string // for pawl
	update      string // of the row that the bare updates change
	session     string // the name of the server's own locks
	lock        string // takes one of those; returns 1
	unlock      string // likewise
	pushed      bool   // waiters are notified instead of polling
}

// PostgreSQL starts a server and returns its measurements.
func PostgreSQL(t testing.TB) compare.Part {
	return part(t, "postgresql", testserver.PostgreSQL(t, "-c", "fsync=on", "-c", "max_connections=400"), postgres)
}

func postgres(addr string) base {
	dsn := "postgres://postgres@" + addr + "/postgres?sslmode=disable"
	return base{
		driver: "pgx", dsn: dsn, url: dsn, update: "UPDATE bare SET n = n + 1 WHERE name = $1", pushed: true,
		session: "advisory lock",
		lock:    "SELECT 1 FROM (SELECT pg_advisory_lock(hashtextextended($1, 0))) AS taken",
		unlock:  "SELECT pg_advisory_unlock(hashtextextended($1, 0))::int",
	}
}

// Openers are the contenders on PostgreSQL that also run as separate processes.
var Openers = map[string]compare.Opener{
	"pawl":          func(addr string) opening { return pawlclient.Open(postgres(addr).url) },
	"advisory lock": func(addr string) opening { return postgres(addr).openSessionLocks },
}

type opening = func(context.Context) (compare.Locker, error)

// MariaDB starts a server and returns its measurements.
func MariaDB(t testing.TB) compare.Part {
	return mysqlPart(t, "mariadb", testserver.MariaDB(t, "--innodb-flush-log-at-trx-commit=1"))
}

// MySQL starts a server and returns its measurements.
func MySQL(t testing.TB) compare.Part {
	return mysqlPart(t, "mysql", testserver.MySQL(t, "--innodb-flush-log-at-trx-commit=1"))
}

func mysqlPart(t testing.TB, name string, s *testserver.Server) compare.Part {
	db, err := sql.Open("mysql", "root@tcp("+s.Addr()+")/")
	if err == nil {
		_, err = db.Exec("CREATE DATABASE bench")
		err = errors.Join(err, db.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	return part(t, name, s, func(addr string) base {
		return base{
			driver: "mysql", dsn: "root@tcp(" + addr + ")/bench?interpolateParams=true", url: "mysql://root@" + addr + "/bench",
			update: "UPDATE bare SET n = n + 1 WHERE name = ?", session: "GET_LOCK", lock: "SELECT GET_LOCK(?, 10)", unlock: "SELECT RELEASE_LOCK(?)",
		}
	})
}

func part(t testing.TB, name string, s *testserver.Server, at func(addr string) base) compare.Part {
	b := at(s.Addr())
	version, err := b.prepare(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return compare.Part{
		Name: name,
		About: []string{
			version + " on the same machine, commits on the disk before they are answered",
			"bare: one committed UPDATE by primary key to lock, and one to unlock",
			b.session + ": the server's own lock, in memory: gone with the connection, without token, a connection for each",
		},
		PIDs: []int{s.PID()},
		Rows: rows(t, s, at),
	}
}

// contenders are the bare updates, pawl, and the server's own locks.
func (b base) contenders() []compare.Contender {
	return []compare.Contender{{Name: "bare", Open: b.openBare}, {Name: "pawl", Open: pawlclient.Open(b.url)}, {Name: b.session, Open: b.openSessionLocks}}
}

func rows(t testing.TB, s *testserver.Server, at func(addr string) base) []compare.Row {
	b := at(s.Addr())
	all := b.contenders()
	plus := 30_000.
	if b.pushed {
		plus = 1500
	}
	bare := func(factor float64) []compare.Bound {
		return []compare.Bound{{Who: "pawl", Than: "bare", Factor: factor, AtMost: true}}
	}
	rows := []compare.Row{
		{Work: compare.Latency(), Length: 500 * time.Millisecond, Who: all, Bounds: bare(1.3)},
		{
			Work: compare.LatencyOver(10 * time.Millisecond), Length: 500 * time.Millisecond, Bounds: bare(1.3),
			Who: at(compare.Delayed(t, s.Addr(), 10*time.Millisecond)).contenders(),
		},
		{
			Work: compare.Handoff(10 * time.Millisecond), Length: 500 * time.Millisecond, Who: all,
			Bounds: []compare.Bound{{Who: "pawl", Than: "bare", Plus: plus, AtMost: true}},
		},
		{Work: compare.Together(64), Length: 500 * time.Millisecond, Who: all[1:]},
	}
	if b.pushed { // elsewhere waiters poll, and many of them are a load
		rows = append(rows,
			compare.Row{Work: compare.Apart(crowd, s.PID()), Length: 500 * time.Millisecond, Who: all},
			compare.Row{Work: compare.Processes(16, "postgresql", s.Addr()), Length: 500 * time.Millisecond, Who: all[1:]},
			pawlclient.Scale(b.url, compare.Store{PIDs: []int{s.PID()}, Addrs: []string{s.Addr()}}, 10_000))
	}
	return rows
}

// crowd is the number of goroutines that have a name, and a row for the bare
// updates, each.
const crowd = 128

// prepare creates pawl's tables and the table for the bare updates.
func (b base) prepare(ctx context.Context) (version string, err error) {
	u, err := url.Parse(b.url)
	if err != nil {
		return "", err
	}
	open, _ := driver.Lookup(u.Scheme)
	e, err := open(ctx, u)
	if err != nil {
		return "", err
	}
	err = e.(interface{ Migrate(context.Context) error }).Migrate(ctx)
	if err := errors.Join(err, e.Close()); err != nil {
		return "", err
	}
	db, err := sql.Open(b.driver, b.dsn)
	if err != nil {
		return "", err
	}
	defer db.Close()
	var more strings.Builder
	for i := range crowd {
		fmt.Fprintf(&more, ", ('bench/%d', 0)", i)
	}
	for _, statement := range []string{
		"CREATE TABLE bare (name VARCHAR(100) PRIMARY KEY, n BIGINT NOT NULL)",
		"INSERT INTO bare VALUES ('bench/latency', 0), ('bench/handoff', 0)" + more.String(),
	} {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			return "", err
		}
	}
	return version, db.QueryRowContext(ctx, "SELECT version()").Scan(&version)
}

// bareOn does not exclude anything: it makes the commits that every lock needs.
type bareOn struct {
	db     *sql.DB
	update *sql.Stmt
}

func (b base) openBare(ctx context.Context) (compare.Locker, error) {
	db, err := sql.Open(b.driver, b.dsn)
	if err != nil {
		return nil, err
	}
	db.SetMaxIdleConns(crowd)
	update, err := db.PrepareContext(ctx, b.update)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return &bareOn{db, update}, nil
}

func (b *bareOn) Close() error { return errors.Join(b.update.Close(), b.db.Close()) }

func (b *bareOn) Lock(ctx context.Context, name string) (func() error, error) {
	once := func() error {
		_, err := b.update.ExecContext(ctx, name)
		return err
	}
	return once, once()
}

// Time returns the duration of one update: the minimum of a handoff.
func (b *bareOn) Time(ctx context.Context, pause time.Duration) (time.Duration, error) {
	time.Sleep(pause)
	begun := time.Now()
	_, err := b.update.ExecContext(ctx, "bench/handoff")
	return time.Since(begun), err
}
