package mysql

import (
	"context"
	"database/sql"
	"flag"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/drivertest"
	"github.com/pawl-go/pawl/internal/testserver"
)

// Cases wait for expiries more than they work, so more of them than there are
// processors may run at once.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

func openStore(t testing.TB, addr, query string) *Engine {
	t.Helper()
	u, err := url.Parse("mysql://root@" + addr + "/pawl?" + query)
	if err != nil {
		t.Fatal(err)
	}
	e, err := openURL(t.Context(), u)
	if err != nil {
		t.Fatal(err)
	}
	return e.(*Engine)
}

// openDB is a pool as a user has it.
func openDB(t testing.TB, addr, database, params string) *sql.DB {
	t.Helper()
	db, err := sql.Open("mysql", "root@tcp("+addr+")/"+database+"?"+params)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

// prepare makes the database and the tables.
func prepare(t testing.TB, s *testserver.Server) *testserver.Server {
	t.Helper()
	if _, err := openDB(t, s.Addr(), "", "").Exec("CREATE DATABASE IF NOT EXISTS pawl"); err != nil {
		t.Fatal(err)
	}
	e := openStore(t, s.Addr(), "")
	defer e.Close()
	if err := e.Migrate(context.Background()); err != nil {
		t.Fatal(err)
	}
	return s
}

func laws(t *testing.T, open func(t *testing.T) driver.Engine) {
	drivertest.Run(t, drivertest.Harness{
		Open:   open,
		Peer:   func(t *testing.T, _ driver.Engine) driver.Engine { return open(t) },
		Crash:  func(driver.Session) {},
		MinTTL: 500 * time.Millisecond,
		// Of connections in a pool that the cases share.
		Stays: func(stack string) bool {
			return strings.Contains(stack, "go-sql-driver/mysql.(*mysqlConn).startWatcher")
		},
	})
}

func TestLaws(t *testing.T) {
	for name, args := range map[string][]string{
		"repeatable read":    nil,
		"read committed":     {"--transaction-isolation=READ-COMMITTED"},
		"snapshot isolation": {"--innodb-snapshot-isolation=ON"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := prepare(t, testserver.MariaDB(t, args...))
			laws(t, func(t *testing.T) driver.Engine { return openStore(t, s.Addr(), "") })
		})
	}
}

// TestLawsOneByOne is on a pool that takes one statement at a time, and whose
// sessions are at the strictest level.
func TestLawsOneByOne(t *testing.T) {
	t.Parallel()
	s := prepare(t, testserver.MariaDB(t, "--transaction-isolation=SERIALIZABLE"))
	db := openDB(t, s.Addr(), "pawl", "")
	laws(t, func(t *testing.T) driver.Engine {
		e, err := New(db)
		if err != nil {
			t.Fatal(err)
		}
		return e
	})
}

func TestLawsOnMySQL(t *testing.T) {
	t.Parallel()
	s := prepare(t, testserver.MySQL(t))
	laws(t, func(t *testing.T) driver.Engine { return openStore(t, s.Addr(), "") })
}
