package mysqldoctor

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/go-sql-driver/mysql"

	"github.com/pawl-go/pawl/doctor"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/sqllock/sqldoctor/internal/sqlexam"
)

// A table is one of pawl's.
type table struct {
	name    string // as it stands in statements
	columns string // that pawl's own has, the first of them a number
	changed bool   // by locks

	absent  bool
	foreign bool
	missing []string // rights
	engine  string   // "" if the user has no right to the table
}

// Error numbers of MySQL and MariaDB.
const (
	noSuchTable  = 1146
	noSuchColumn = 1054
	syntaxError  = 1064
)

func isCode(err error, code uint16) bool {
	e, ok := errors.AsType[*mysql.MySQLError](err)
	return ok && e.Number == code
}

func (s *server) readTables(ctx context.Context) error {
	s.tables = []table{
		{name: s.Meta, columns: "one, version"},
		{name: s.Head, columns: "fence, name, x_id, x_token, x_live, x_until, waiting, departed", changed: true},
		{name: s.Claim, columns: "token, name, id, live, lim, held, until", changed: true},
		{name: s.Record, columns: "version, name, value, until", changed: true},
	}
	for i := range s.tables {
		if err := s.readTable(ctx, &s.tables[i]); err != nil {
			return err
		}
	}
	return nil
}

// readTable finds out which rights to a table are missing. EXPLAIN needs the rights of
// the statement and does not execute it. A user without any right is told so whether the
// table exists or not.
func (s *server) readTable(ctx context.Context, t *table) error {
	column, _, _ := strings.Cut(t.columns, ",")
	tries := []struct{ right, text string }{
		{"SELECT", fmt.Sprintf("SELECT %s FROM %s LIMIT 0", t.columns, t.name)},
		{"INSERT", fmt.Sprintf("EXPLAIN INSERT IGNORE INTO %s () VALUES ()", t.name)},
		{"UPDATE", fmt.Sprintf("EXPLAIN UPDATE %s SET %s = 0 WHERE 1 = 0", t.name, column)},
		{"DELETE", fmt.Sprintf("EXPLAIN DELETE FROM %s WHERE 1 = 0", t.name)},
	}
	if !t.changed || s.readOnly() != "" { // a server that is read-only refuses to explain changes
		tries = tries[:1]
	}
	for _, try := range tries {
		switch _, err := s.Query(ctx, try.text); {
		case err == nil:
		case isCode(err, noSuchTable):
			t.absent = true
			return nil
		case isCode(err, noSuchColumn):
			t.foreign = true
			return nil
		case errors.Is(err, driver.ErrDenied):
			t.missing = append(t.missing, try.right)
		default:
			return err
		}
	}
	database, name := "DATABASE()", t.name
	if d, rest, named := strings.Cut(t.name, "."); named {
		database, name = "'"+d+"'", rest // neither needs an escape
	}
	var err error
	t.engine, err = s.One(ctx, fmt.Sprintf("SELECT ENGINE FROM information_schema.TABLES WHERE TABLE_SCHEMA = %s AND TABLE_NAME = '%s'", database, name))
	return err
}

// names returns those of the tables for which is is true, with commas.
func (s *server) names(is func(t table) bool) string {
	var all []string
	for _, t := range s.tables {
		if is(t) {
			all = append(all, t.name)
		}
	}
	return strings.Join(all, ", ")
}

func tablesThere(ctx context.Context, s *server) (doctor.Finding, error) {
	foreign, absent := s.names(func(t table) bool { return t.foreign }), s.names(func(t table) bool { return t.absent })
	if bad, is := sqlexam.NotThere(foreign, absent); is {
		return bad, nil
	}
	f := sqlexam.Faults{}
	for _, t := range s.tables {
		if t.engine != "" && !strings.EqualFold(t.engine, "InnoDB") {
			f.Add(doctor.Broken, fmt.Sprintf("%s is a table of %s", t.name, t.engine), "Without transactions and row locks two clients can hold the same lock.",
				fmt.Sprintf("ALTER TABLE %s ENGINE = InnoDB;", t.name))
		}
	}
	if bad := f.Finding(""); bad.Level != doctor.OK {
		return bad, nil
	}
	if len(s.tables[0].missing) > 0 {
		return doctor.Finding{}, sqlexam.ErrSkip // the check of rights says why
	}
	return s.TableVersion(ctx, "SELECT version FROM "+s.Meta+" WHERE one = 1")
}

func rights(ctx context.Context, s *server) (doctor.Finding, error) {
	if s.names(func(t table) bool { return t.absent || t.foreign }) != "" {
		return doctor.Finding{}, sqlexam.ErrSkip
	}
	database, err := s.One(ctx, "SELECT DATABASE()")
	if err != nil {
		return doctor.Finding{}, err
	}
	f := sqlexam.Faults{}
	for _, t := range s.tables {
		if len(t.missing) == 0 {
			continue
		}
		name, missing := t.name, strings.Join(t.missing, ", ")
		if !strings.Contains(name, ".") {
			name = "`" + strings.ReplaceAll(database, "`", "``") + "`." + name
		}
		f.Add(doctor.Broken, fmt.Sprintf("%s has no %s on %s", s.user, missing, t.name), "Locks, renewals or the deletion of unused rows are denied by the server.",
			fmt.Sprintf("GRANT %s ON %s TO %s;", missing, name, s.user))
	}
	if s.readOnly() != "" {
		return f.Finding(s.user + " may read the tables; the rights to change them are not told on a server that is read-only"), nil
	}
	return f.Finding(s.user + " may read and change the tables"), nil
}
