package postgresdoctor

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/pawl-go/pawl/doctor"
	"github.com/pawl-go/pawl/sqllock/sqldoctor/internal/sqlexam"
)

// A table is one of pawl's, as the catalogue has it.
type table struct {
	name    string   // as it stands in statements
	columns []string // that pawl's own has
	needs   []string // the rights that pawl needs

	oid         string // "" if there is none
	schema      string // quoted
	visible     bool   // the schema may be used
	unlogged    bool
	notTable    bool     // a view, or the like
	has         []string // columns
	missing     []string // rights
	rowSecurity bool
	options     string
}

func (s *server) readTables(ctx context.Context) error {
	change := []string{"SELECT", "INSERT", "UPDATE", "DELETE"}
	s.tables = []table{
		{name: s.Meta, columns: []string{"one", "schema"}, needs: change[:1]},
		{name: s.Head, columns: []string{"name", "fence", "x_id", "x_token", "x_live", "x_until", "waiting", "departed"}, needs: change},
		{name: s.Claim, columns: []string{"name", "token", "id", "live", "lim", "held", "until"}, needs: change},
		{name: s.Record, columns: []string{"name", "version", "value", "until"}, needs: change},
	}
	for i := range s.tables {
		if err := s.readTable(ctx, &s.tables[i]); err != nil {
			return err
		}
	}
	return nil
}

// readTable finds a table as the server would, and also one in a schema of the search
// path that the user may not use.
func (s *server) readTable(ctx context.Context, t *table) error {
	where, name := `n.nspname = ANY (regexp_split_to_array(replace(replace(current_setting('search_path'), '"$user"', current_user), '"', ''), '\s*,\s*'))
		AND (pg_table_is_visible(c.oid) OR NOT has_schema_privilege(n.oid, 'USAGE'))`, t.name
	if schema, rest, named := strings.Cut(t.name, "."); named {
		where, name = "n.nspname = '"+schema+"'", rest // neither needs an escape
	}
	rows, err := s.Query(ctx, fmt.Sprintf(`SELECT c.oid, quote_ident(n.nspname), has_schema_privilege(n.oid, 'USAGE'), c.relpersistence = 'u', c.relkind <> 'r',
		array_to_string(ARRAY(SELECT a.attname FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped), ' '),
		array_to_string(ARRAY(SELECT r FROM unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) r WHERE NOT has_table_privilege(c.oid, r)), ' '),
		row_security_active(c.oid), coalesce(array_to_string(c.reloptions, ' '), '')
		FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
		WHERE c.relname = '%s' AND c.relkind IN ('r', 'v', 'm', 'f', 'p') AND %s ORDER BY pg_table_is_visible(c.oid) DESC LIMIT 1`, name, where))
	if err != nil || len(rows) == 0 {
		return err
	}
	r := rows[0]
	t.oid, t.schema, t.visible, t.unlogged, t.notTable = r[0], r[1], r[2] == "t", r[3] == "t", r[4] == "t"
	t.has, t.rowSecurity, t.options = strings.Fields(r[5]), r[7] == "t", r[8]
	for _, right := range strings.Fields(r[6]) {
		if slices.Contains(t.needs, right) {
			t.missing = append(t.missing, right)
		}
	}
	return nil
}

// oids returns those of the tables that are there, with commas; "" if one is missing.
func (s *server) oids() string {
	var all []string
	for _, t := range s.tables {
		if t.oid == "" {
			return ""
		}
		all = append(all, t.oid)
	}
	return list(all)
}

func tablesThere(ctx context.Context, s *server) (doctor.Finding, error) {
	var absent, foreign, unlogged []string
	for _, t := range s.tables {
		switch {
		case t.oid == "":
			absent = append(absent, t.name)
		case t.notTable || slices.ContainsFunc(t.columns, func(c string) bool { return !slices.Contains(t.has, c) }):
			foreign = append(foreign, t.name)
		case t.unlogged:
			unlogged = append(unlogged, t.name)
		}
	}
	if bad, is := sqlexam.NotThere(list(foreign), list(absent)); is {
		return bad, nil
	}
	f := sqlexam.Faults{}
	for _, name := range unlogged {
		f.Add(doctor.Broken, name+" is unlogged", "A crash of the server empties the table: locks that are held are granted again, and tokens may repeat.",
			"ALTER TABLE "+name+" SET LOGGED;")
	}
	if bad := f.Finding(""); bad.Level != doctor.OK {
		return bad, nil
	}
	meta := s.tables[0]
	if len(meta.missing) > 0 || !meta.visible {
		return doctor.Finding{}, sqlexam.ErrSkip // the check of rights says why
	}
	return s.TableVersion(ctx, "SELECT schema FROM "+meta.name+" WHERE one = 1")
}

func rights(_ context.Context, s *server) (doctor.Finding, error) {
	if s.oids() == "" {
		return doctor.Finding{}, sqlexam.ErrSkip
	}
	const meaning = "Locks, renewals or the deletion of unused rows are denied by the server."
	f := sqlexam.Faults{}
	for _, t := range s.tables {
		if !t.visible {
			f.Add(doctor.Broken, s.user+" has no USAGE on schema "+t.schema, meaning, fmt.Sprintf("GRANT USAGE ON SCHEMA %s TO %s;", t.schema, s.user))
		}
		if len(t.missing) > 0 {
			name := t.name
			if !strings.Contains(name, ".") {
				name = t.schema + "." + name
			}
			f.Add(doctor.Broken, fmt.Sprintf("%s has no %s on %s", s.user, list(t.missing), name), meaning,
				fmt.Sprintf("GRANT %s ON %s TO %s;", list(t.missing), name, s.user))
		}
		if t.rowSecurity {
			f.Add(doctor.Broken, "row security is active on "+t.name, "A policy can hide the claims of others, and two clients then hold one lock.",
				fmt.Sprintf("ALTER TABLE %s DISABLE ROW LEVEL SECURITY;", t.name))
		}
	}
	return f.Finding(s.user + " may read and change the tables"), nil
}

// multiPrimary finds a subscription that writes into the tables.
func multiPrimary(ctx context.Context, s *server) (doctor.Finding, error) {
	oids := s.oids()
	if oids == "" || s.version < 120000 { // before, users may not read which one it is
		return doctor.Finding{}, sqlexam.ErrSkip
	}
	rows, err := s.Query(ctx, `SELECT DISTINCT quote_ident(s.subname), array_to_string(s.subpublications, ', ') FROM pg_subscription_rel r
		JOIN pg_subscription s ON s.oid = r.srsubid WHERE r.srrelid IN (`+oids+")")
	if err != nil {
		return doctor.Finding{}, err
	}
	f := sqlexam.Faults{}
	for _, r := range rows {
		f.Add(doctor.Broken, "subscription "+r[0]+" writes into the tables",
			"A row that is locked on one server is not locked on the other: both grant the same lock.",
			fmt.Sprintf("ALTER PUBLICATION %s DROP TABLE %s; on the publisher, then here ALTER SUBSCRIPTION %s REFRESH PUBLICATION;",
				r[1], s.Tables(), r[0]))
	}
	return f.Finding("no other server writes into the tables"), nil
}
