package postgresdoctor

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/doctor"
	"github.com/pawl-go/pawl/internal/doctortest"
	"github.com/pawl-go/pawl/internal/testserver"
	"github.com/pawl-go/pawl/sqllock/sqldoctor/internal/examtest"
)

// shared is a server with good settings.
var shared struct {
	server *testserver.Server
	number sync.Mutex // guards made
	made   int
}

func TestMain(m *testing.M) {
	code := 0
	err := testserver.RunOutsideTest(func(t testing.TB) {
		shared.server = testserver.PostgreSQL(t, "-c", "fsync=on", "-c", "max_prepared_transactions=10")
		code = m.Run()
	})
	if shared.server == nil {
		fmt.Fprintln(os.Stderr, err)
		code = m.Run() // the tests skip
	}
	os.Exit(doctortest.Unapplied(code, nil))
}

// A place is a database with pawl's tables and a user with the least rights.
type place struct {
	t          *testing.T
	addr       string
	name, user string
}

func newPlace(t *testing.T) *place {
	t.Helper()
	if shared.server == nil {
		t.Skip("postgresql is not there")
	}
	shared.number.Lock()
	defer shared.number.Unlock()
	shared.made++
	return makePlace(t, shared.server, fmt.Sprint("place", shared.made))
}

// makePlace makes a place on a server.
func makePlace(t *testing.T, s *testserver.Server, name string) *place {
	t.Helper()
	p := &place{t: t, addr: s.Addr(), name: name, user: name + "_app"}
	p.execIn("postgres", "CREATE DATABASE "+p.name, "CREATE ROLE "+p.user+" LOGIN", "GRANT pg_monitor TO "+p.user)
	examtest.Migrate(t, p.url("postgres", ""))
	p.exec("GRANT SELECT ON pawl_meta TO "+p.user, "GRANT SELECT, INSERT, UPDATE, DELETE ON pawl_head, pawl_claim, pawl_record TO "+p.user)
	return p
}

func (p *place) url(user, params string) string {
	return fmt.Sprintf("postgres://%s@%s/%s?sslmode=disable%s", user, p.addr, p.name, params)
}

func (p *place) store() string { return p.url(p.user, "") }

// exec runs statements as the superuser.
func (p *place) exec(all ...string) {
	p.t.Helper()
	p.execIn(p.name, all...)
}

func (p *place) execIn(database string, all ...string) {
	p.t.Helper()
	c := p.connect(database)
	defer c.Close(context.Background())
	for _, text := range all {
		if _, err := c.Exec(p.t.Context(), text); err != nil {
			p.t.Fatalf("%s: %v", text, err)
		}
	}
}

// connect returns a connection of the superuser.
func (p *place) connect(database string) *pgx.Conn {
	p.t.Helper()
	c, err := pgx.Connect(p.t.Context(), fmt.Sprintf("postgres://postgres@%s/%s?sslmode=disable", p.addr, database))
	if err != nil {
		p.t.Fatal(err)
	}
	return c
}

// mended applies a mend and expects that the check then finds no fault.
func (p *place) mended(store, check, mend string) {
	p.t.Helper()
	before := doctortest.Examine(p.t, store)
	p.exec(examtest.Statements(mend)...)
	p.awaitNoClient()
	doctortest.Mended(p.t, before, doctortest.Examine(p.t, store), check, "")
}

// mendedSoon is mended, for what the server does a moment after it was told.
func (p *place) mendedSoon(check, mend string) {
	p.t.Helper()
	before := doctortest.Examine(p.t, p.store())
	p.exec(examtest.Statements(mend)...)
	examtest.Until(p.t, p.store(), check, doctor.OK)
	doctortest.Mended(p.t, before, doctortest.Examine(p.t, p.store()), check, "")
}

// awaitNoClient waits until the server has ended all closed connections to the database,
// which would count as used.
func (p *place) awaitNoClient() {
	p.t.Helper()
	c := p.connect("postgres")
	defer c.Close(context.Background())
	deadline := time.Now().Add(time.Minute)
	for n := 1; n > 0; {
		if err := c.QueryRow(p.t.Context(), "SELECT numbackends FROM pg_stat_database WHERE datname = $1", p.name).Scan(&n); err != nil {
			p.t.Fatal(err)
		}
		if n > 0 && time.Now().After(deadline) {
			p.t.Fatalf("%d clients are left", n)
		}
		time.Sleep(5 * time.Millisecond) // poll: there is no notification
	}
}

func TestAServerWithGoodSettingsIsClean(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	examtest.Clean(t, p.store())
	examtest.Clean(t, p.url("postgres", ""))
}

// The user with the rights that the documentation names can lock.
func TestTheLeastRightsSuffice(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	c, err := pawl.Open(t.Context(), p.store())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	l, err := c.Mutex("m").Lock(t.Context())
	if err == nil {
		err = l.Unlock()
	}
	if err != nil {
		t.Error(err)
	}
}

func TestAnExaminationChangesNothing(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	c, err := pawl.Open(t.Context(), p.store(), pawl.WithTTL(10*time.Minute)) // no beat falls into the test
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	l, err := c.Mutex("held").Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer l.Unlock()
	before := p.dump()
	doctortest.Examine(t, p.store())
	if after := p.dump(); after != before || !strings.Contains(before, "held") {
		t.Errorf("before\n%s\nafter\n%s", before, after)
	}
}

// dump writes down tables, objects, rights and settings.
func (p *place) dump() string {
	p.t.Helper()
	c := p.connect(p.name)
	defer c.Close(context.Background())
	var out strings.Builder
	for _, text := range []string{
		"SELECT * FROM pawl_meta", "SELECT * FROM pawl_head", "SELECT * FROM pawl_claim", "SELECT * FROM pawl_record",
		"SELECT oid, relname, relkind, relacl::text, reloptions::text FROM pg_class WHERE relnamespace = 'public'::regnamespace ORDER BY oid",
		"SELECT rolname, rolconfig::text, rolconnlimit FROM pg_roles WHERE rolname LIKE '" + p.name + "%' ORDER BY oid",
		"SELECT setconfig::text FROM pg_db_role_setting WHERE setdatabase = (SELECT oid FROM pg_database WHERE datname = current_database())",
		"SELECT name, setting FROM pg_file_settings ORDER BY sourcefile, sourceline",
	} {
		rows, err := c.Query(p.t.Context(), text)
		if err != nil {
			p.t.Fatal(err)
		}
		for rows.Next() {
			values, err := rows.Values()
			if err != nil {
				p.t.Fatal(err)
			}
			fmt.Fprintln(&out, values...)
		}
		if err := rows.Err(); err != nil {
			p.t.Fatalf("%s: %v", text, err)
		}
	}
	return out.String()
}

func TestAStoreThatCannotBeExaminedIsAnErrorWithoutThePassword(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	for what, store := range map[string]string{
		"away":        fmt.Sprintf("postgres://u:c4n4ry@127.0.0.1:%d/db?sslmode=disable", testserver.FreePort(t)),
		"no user":     p.url("nobody_here:c4n4ry", ""),
		"no database": strings.Replace(p.url("postgres:c4n4ry", ""), "/"+p.name, "/nothing", 1),
		"bad URL":     p.url("postgres:c4n4ry", "&colour=red"),
	} {
		found, err := doctor.Examine(t.Context(), store)
		if err == nil || strings.Contains(err.Error(), "c4n4ry") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, %v", what, found, err)
		}
	}
}

// named puts the names into a statement.
func (p *place) named(text string) string {
	return strings.NewReplacer("USER", p.user, "DB", p.name).Replace(text)
}
