package mysqldoctor

import (
	"database/sql"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/doctor"
	"github.com/pawl-go/pawl/internal/doctortest"
	"github.com/pawl-go/pawl/internal/testserver"
	"github.com/pawl-go/pawl/sqllock/sqldoctor/internal/examtest"
)

func TestMain(m *testing.M) {
	os.Exit(doctortest.Unapplied(m.Run(), map[string]string{
		"odd": "invented by a test", "needed": "invented by a test", "cut": "invented by a test",
	}))
}

// starts are the servers on which everything is tried.
var starts = map[string]func(testing.TB, ...string) *testserver.Server{"mariadb": testserver.MariaDB, "mysql": testserver.MySQL}

// good makes commits wait for the disk, which servers of tests do not do otherwise.
const good = "--innodb-flush-log-at-trx-commit=1"

// A place is a database with pawl's tables, and a user app with the least rights and the
// right to see what the examination reads.
type place struct {
	t      *testing.T
	server *testserver.Server
	db     *sql.DB // of root
}

func newPlace(t *testing.T, s *testserver.Server) *place {
	t.Helper()
	p := &place{t: t, server: s, db: openRoot(t, s)}
	p.exec("CREATE DATABASE locks", "CREATE USER app@'%'", "GRANT PROCESS ON *.* TO app@'%'")
	examtest.Migrate(t, p.url("root", ""))
	p.exec("GRANT SELECT ON locks.pawl_meta TO app@'%'")
	version := ""
	if err := p.db.QueryRow("SELECT VERSION()").Scan(&version); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(version, "MariaDB") {
		p.exec("GRANT SELECT ON performance_schema.replication_connection_status TO app@'%'")
	}
	for _, table := range []string{"head", "claim", "record"} {
		p.exec("GRANT SELECT, INSERT, UPDATE, DELETE ON locks.pawl_" + table + " TO app@'%'")
	}
	return p
}

func openRoot(t *testing.T, s *testserver.Server) *sql.DB {
	t.Helper()
	db, err := sql.Open("mysql", "root@tcp("+s.Addr()+")/")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	db.SetMaxIdleConns(0) // an idle one would be counted as used
	return db
}

func (p *place) url(user, params string) string {
	return fmt.Sprintf("mysql://%s@%s/locks%s", user, p.server.Addr(), params)
}

func (p *place) store() string { return p.url("app", "") }

// exec runs statements as root.
func (p *place) exec(all ...string) {
	p.t.Helper()
	for _, text := range all {
		if _, err := p.db.Exec(text); err != nil {
			p.t.Fatalf("%s: %v", text, err)
		}
	}
}

// inTables runs statements that name the tables without their database.
func (p *place) inTables(all ...string) {
	p.t.Helper()
	for _, text := range all {
		p.exec(strings.ReplaceAll(text, " pawl_", " locks.pawl_"))
	}
}

// mended applies a mend and expects that the check then finds no fault, and none worse.
func (p *place) mended(store, check, mend string) {
	p.t.Helper()
	before := doctortest.Examine(p.t, store)
	p.awaitNoClient()
	p.inTables(examtest.Statements(mend)...)
	doctortest.Mended(p.t, before, doctortest.Examine(p.t, store), check, "")
}

// Tests that share a server set it up wrong one after the other, and leave it as it was.
func TestOnOneServer(t *testing.T) {
	t.Parallel()
	for kind, start := range starts {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t, start(t, good))
			for _, test := range []struct {
				name string
				test func(p *place, kind string)
			}{
				{"good settings are clean", clean},
				{"an examination changes nothing", changesNothing},
				{"a setting that is wrong is found and mended", wrongSettings},
				{"each missing right is named", missingRights},
				{"tables that are missing or not pawl's are found", wrongTables},
				{"a store that cannot be examined is an error without the password", notExamined},
			} {
				t.Run(test.name, func(t *testing.T) {
					at := *p
					at.t = t
					test.test(&at, kind)
				})
			}
		})
	}
}

func clean(p *place, _ string) {
	examtest.Clean(p.t, p.store())
	examtest.Clean(p.t, p.url("root", ""))
	c, err := pawl.Open(p.t.Context(), p.store())
	if err != nil {
		p.t.Fatal(err)
	}
	defer c.Close()
	l, err := c.Mutex("m").Lock(p.t.Context()) // these rights suffice for locks
	if err == nil {
		err = l.Unlock()
	}
	if err != nil {
		p.t.Error(err)
	}
}

func changesNothing(p *place, kind string) {
	c, err := pawl.Open(p.t.Context(), p.store(), pawl.WithTTL(10*time.Minute)) // no beat falls into the test
	if err != nil {
		p.t.Fatal(err)
	}
	defer c.Close()
	l, err := c.Mutex("still here").Lock(p.t.Context())
	if err != nil {
		p.t.Fatal(err)
	}
	defer l.Unlock()
	before := p.dump()
	doctortest.Examine(p.t, p.store())
	if after := p.dump(); after != before || !strings.Contains(before, "still here") {
		p.t.Errorf("%s: before\n%s\nafter\n%s", kind, before, after)
	}
}

// dump writes down tables, objects, rights and variables.
func (p *place) dump() string {
	p.t.Helper()
	var out strings.Builder
	for _, text := range []string{
		"SELECT * FROM locks.pawl_meta", "SELECT * FROM locks.pawl_head", "SELECT * FROM locks.pawl_claim", "SELECT * FROM locks.pawl_record",
		"SELECT TABLE_SCHEMA, TABLE_NAME, ENGINE, CREATE_TIME FROM information_schema.TABLES WHERE TABLE_SCHEMA IN ('locks', 'mysql') ORDER BY 1, 2",
		"SHOW GRANTS FOR app@'%'",
		"SHOW GLOBAL VARIABLES WHERE Variable_name NOT LIKE 'gtid%' AND Variable_name NOT LIKE 'timestamp'",
	} {
		rows, err := p.db.Query(text)
		if err != nil {
			p.t.Fatalf("%s: %v", text, err)
		}
		defer rows.Close()
		columns, err := rows.Columns()
		if err != nil {
			p.t.Fatal(err)
		}
		for rows.Next() {
			values, dest := make([]sql.NullString, len(columns)), make([]any, len(columns))
			for i := range values {
				dest[i] = &values[i]
			}
			if err := rows.Scan(dest...); err != nil {
				p.t.Fatal(err)
			}
			fmt.Fprintln(&out, values)
		}
		if err := rows.Err(); err != nil {
			p.t.Fatal(err)
		}
	}
	return out.String()
}

func notExamined(p *place, _ string) {
	for what, store := range map[string]string{
		"away":        fmt.Sprintf("mysql://u:c4n4ry@127.0.0.1:%d/db", testserver.FreePort(p.t)),
		"no user":     p.url("nobody_here:c4n4ry", ""),
		"no database": strings.Replace(p.url("root", ""), "/locks", "/nothing", 1),
		"bad URL":     p.url("root:c4n4ry", "?colour=red"),
	} {
		found, err := doctor.Examine(p.t.Context(), store)
		if err == nil || strings.Contains(err.Error(), "c4n4ry") || strings.Contains(err.Error(), "\n") {
			p.t.Errorf("%s: %v, %v", what, found, err)
		}
	}
}

func TestGaleraIsBroken(t *testing.T) {
	t.Parallel()
	provider := "/usr/lib/galera/libgalera_smm.so"
	if _, err := os.Stat(provider); err != nil {
		t.Skip("optional server: galera-4 is not there")
	}
	s := testserver.MariaDB(t, good, "--wsrep-on=ON", "--wsrep-provider="+provider, "--wsrep-cluster-address=gcomm://", "--binlog-format=ROW",
		"--wsrep-provider-options=gmcast.listen_addr=tcp://127.0.0.1:0;pc.recovery=false", "--wsrep-new-cluster", "--wsrep-node-address=127.0.0.1")
	if _, err := openRoot(t, s).Exec("CREATE DATABASE locks"); err != nil {
		t.Fatal(err)
	}
	store := "mysql://root@" + s.Addr() + "/locks"
	examtest.Expect(t, store, "multi-primary", doctor.Broken, "one of a Galera cluster", "two grant the same lock")
	examtest.Migrate(t, store+"?multi_primary=allow")
	examtest.Expect(t, store+"?multi_primary=allow", "multi-primary", doctor.Warning, "and the URL permits it", "only if all clients use this very server")
}
