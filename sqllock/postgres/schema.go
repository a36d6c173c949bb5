package postgres

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"hash/fnv"
	"regexp"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"
)

//go:embed schema.sql
var schemaSQL string

const schemaVersion = 1

// tables are their names, as they stand in statements.
type tables struct {
	shown                     string // for messages
	meta, head, claim, record string
	channel                   string // of NOTIFY
}

// A schema's name may be anything in front of the dot that needs no quotes. The
// longest of our own names, and the channel's, must fit into 63 bytes.
// tablePrefix is made when it is first needed: commands that use another store
// start without it.
var tablePrefix = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^([a-z_][a-z0-9_]{0,47}\.)?[a-z_][a-z0-9_]{0,47}$`)
})

func tablesOf(prefix string) (tables, error) {
	if !tablePrefix().MatchString(prefix) {
		return tables{}, errors.New("postgres: table_prefix must be up to 48 of a-z, 0-9 and _ that do not begin with a digit, and a schema and a dot before them if need be")
	}
	return tables{
		shown: prefix + "*",
		meta:  prefix + "meta", head: prefix + "head", claim: prefix + "claim", record: prefix + "record",
		channel: strings.ReplaceAll(prefix[max(0, len(prefix)-48):], ".", "_") + "turn",
	}, nil
}

// missingSchema says what to do where there is no schema for the tables.
func (t *tables) missingSchema() string {
	if schema, _, named := strings.Cut(t.shown, "."); named {
		return "CREATE SCHEMA " + schema + " first"
	}
	return "set the search_path to one that is there, or name it in table_prefix"
}

// Schema returns the statements that Migrate runs, for those who want to run
// them by themselves.
func (e *Engine) Schema() string { return e.store.tables.schema() }

func (t *tables) schema() string {
	return strings.NewReplacer("{meta}", t.meta, "{head}", t.head, "{claim}", t.claim, "{record}", t.record).Replace(schemaSQL)
}

// Migrate makes the tables where they are missing. It may be called by many at
// once, and again and again; it needs the right to create tables.
func (e *Engine) Migrate(ctx context.Context) error {
	s := e.store
	err := s.from.with(ctx, func(c *pgx.Conn) error {
		// Two that make the same table at once would meet in the catalogue.
		_, err := c.Exec(ctx, fmt.Sprintf("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; SELECT pg_advisory_xact_lock(%d);\n%s\nCOMMIT",
			s.tables.number(), s.tables.schema()), pgx.QueryExecModeSimpleProtocol)
		if err != nil && !c.IsClosed() {
			_, _ = c.Exec(ctx, "ROLLBACK", pgx.QueryExecModeSimpleProtocol) // where that fails too, the connection is not used again
		}
		return err
	})
	if err != nil {
		return s.classify(err)
	}
	return s.ready(ctx)
}

// number is the advisory lock under which the tables are made.
func (t *tables) number() int64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte("pawl " + t.head)) // never fails
	return int64(h.Sum64())
}
