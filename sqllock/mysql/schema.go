package mysql

import (
	"context"
	"database/sql"
	_ "embed"
	"errors"
	"regexp"
	"strings"
	"sync"
)

var (
	//go:embed schema.sql
	schemaSQL string
	//go:embed swept.sql
	sweptSQL string
)

const schemaVersion = 1

// tables are their names, as they stand in statements.
type tables struct {
	shown                     string // for messages
	meta, head, claim, record string
}

// tablePrefix is made when it is first needed: commands that use another store
// start without it.
var tablePrefix = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^([A-Za-z_][A-Za-z0-9_]{0,47}\.)?[A-Za-z_][A-Za-z0-9_]{0,47}$`)
})

func tablesOf(prefix string) (tables, error) {
	if !tablePrefix().MatchString(prefix) {
		return tables{}, errors.New("mysql: table_prefix must be up to 48 letters, digits and _ that do not begin with a digit, and a database and a dot before them if need be")
	}
	return tables{
		shown: prefix + "*",
		meta:  prefix + "meta", head: prefix + "head", claim: prefix + "claim", record: prefix + "record",
	}, nil
}

// Schema returns the statements that Migrate runs, for those who want to run
// them by themselves.
func (e *Engine) Schema() string { return e.store.tables.schema() }

func (t *tables) schema() string { return t.named(schemaSQL + "\n" + sweptSQL) }

// named writes the names of the tables into statements.
func (t *tables) named(text string) string {
	return strings.NewReplacer("{meta}", t.meta, "{head}", t.head, "{claim}", t.claim, "{record}", t.record).Replace(text)
}

// Migrate makes the tables where they are missing. It may be called by many at
// once, and again and again; it needs the right to create tables.
func (e *Engine) Migrate(ctx context.Context) error {
	s := e.store
	if err := s.from.usable(); err != nil {
		return err
	}
	err := s.from.with(ctx, work, func(c *sql.Conn) error {
		if err := s.inspect(ctx, c); err != nil {
			return err
		}
		// One by one: each ends a transaction anyway. Two that make the same
		// table at once follow each other by the server's own locks.
		for _, text := range statementsOf(s.tables.schema()) {
			if _, err := c.ExecContext(ctx, text); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return s.answer(ctx, err)
	}
	return s.ready(ctx)
}

// statementsOf takes a script apart.
func statementsOf(script string) (all []string) {
	for text := range strings.SplitSeq(script, ";\n") {
		if text = strings.TrimSpace(text); text != "" {
			all = append(all, text)
		}
	}
	return all
}
