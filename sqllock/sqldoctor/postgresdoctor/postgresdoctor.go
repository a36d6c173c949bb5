// Package postgresdoctor examines a PostgreSQL server, for package doctor: its role, pawl's
// tables and the rights to them, what survives a crash and a failover, and what slows
// locks down. It reads catalogues, statistics and settings, and changes nothing.
package postgresdoctor

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/pawl-go/pawl/doctor"
	"github.com/pawl-go/pawl/sqllock/sqldoctor/internal/sqlexam"

	_ "github.com/pawl-go/pawl/sqllock/postgres" // the engine that is opened
)

func init() {
	doctor.Register("postgres", examine)
	doctor.Register("postgresql", examine)
}

// server is what is read of a server before the checks.
type server struct {
	*sqlexam.Server
	settings map[string]string // of this session, in the server's units
	version  int               // as 150004
	user     string            // quoted, as it stands in statements
	database string            // likewise
	tables   []table
}

type check = sqlexam.Check[*server]

var checks = []check{
	{Name: "version", Look: version},
	{Name: "role", Look: role, Shared: true},
	{Name: "tables", Look: tablesThere, Shared: true},
	{Name: "rights", Look: rights},
	{Name: "crash safety", Look: crashSafety},
	{Name: "synchronous commit", Look: synchronousCommit},
	{Name: "replicas", Look: replicas},
	{Name: "multi-primary", Look: multiPrimary},
	{Name: "pooler", Look: pooler},
	{Name: "timeouts", Look: timeouts},
	{Name: "isolation level", Look: isolation},
	{Name: "connections", Look: connections},
	{Name: "clock", Look: clock},
	{Name: "round trip", Look: roundTrip},
	{Name: "long transactions", Look: longTransactions},
	{Name: "dead rows", Look: deadRows},
}

// oldest is the first version that has what the engine's statements need.
const oldest = 90500

func examine(ctx context.Context, u *url.URL) ([]doctor.Finding, error) {
	return sqlexam.Examine(ctx, u, func(ctx context.Context, on *sqlexam.Server) ([]doctor.Finding, error) {
		s := &server{Server: on}
		if err := s.read(ctx); err != nil {
			return nil, err
		}
		if s.version < oldest { // the catalogues may lack what the others read
			return sqlexam.Run(ctx, s, checks[:1]), nil
		}
		if err := s.readTables(ctx); err != nil {
			return nil, err
		}
		return sqlexam.Run(ctx, s, checks), nil
	})
}

func (s *server) read(ctx context.Context) (err error) {
	if s.settings, err = s.Pairs(ctx, "SELECT name, setting FROM pg_settings"); err != nil {
		return err
	}
	if s.version, err = strconv.Atoi(s.settings["server_version_num"]); err != nil {
		return fmt.Errorf("the server has no version: %w", err)
	}
	rows, err := s.Query(ctx, "SELECT quote_ident(current_user), quote_ident(current_database())")
	if err != nil {
		return err
	}
	s.user, s.database = rows[0][0], rows[0][1]
	return nil
}

// set returns the statement that sets a parameter for this user in this database, which
// prevails over the server's, the database's and the user's own.
func (s *server) set(name, value string) string {
	return fmt.Sprintf("ALTER ROLE %s IN DATABASE %s SET %s = %s;", s.user, s.database, name, value)
}

// setServer returns the statements that set a parameter for the whole server.
func setServer(name, value string) string {
	return fmt.Sprintf("ALTER SYSTEM SET %s = %s; SELECT pg_reload_conf();", name, value)
}

func version(_ context.Context, s *server) (doctor.Finding, error) {
	found := "PostgreSQL " + s.settings["server_version"]
	if s.version < oldest {
		return doctor.Break("", found, "The statements of pawl need version 9.5 or later.", "apt-get install postgresql"), nil
	}
	return doctor.Good("", found), nil
}

func role(ctx context.Context, s *server) (doctor.Finding, error) {
	replica, err := s.One(ctx, "SELECT pg_is_in_recovery()")
	switch {
	case err != nil:
		return doctor.Finding{}, err
	case replica == "t":
		return doctor.Break("", "the server is a read replica", "No lock can be taken here: pawl refuses a replica.",
			"-s 'postgres://PRIMARY,REPLICA/DATABASE?target_session_attrs=read-write'"), nil
	case s.settings["default_transaction_read_only"] == "on":
		return doctor.Break("", "default_transaction_read_only is on", "No lock can be taken: pawl refuses connections that do not write.",
			s.set("default_transaction_read_only", "off")), nil
	}
	return doctor.Good("", "the server is a primary and accepts writes"), nil
}

func clock(ctx context.Context, s *server) (doctor.Finding, error) {
	return s.Clock(ctx, "SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS bigint)"), nil
}

func roundTrip(ctx context.Context, s *server) (doctor.Finding, error) { return s.RoundTrip(ctx), nil }

// number returns a setting as a number, 0 if the server does not have it.
func (s *server) number(name string) int {
	n, _ := strconv.Atoi(s.settings[name])
	return n
}

// list writes words with commas.
func list(words []string) string { return strings.Join(words, ", ") }
