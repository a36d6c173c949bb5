package postgres

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/sqllock/internal/sqlstore"
)

// settings are what is read of server and connections once.
type settings struct {
	begin  string // begins a transaction where the default isolation level would not do; "": it does
	schema string // of the tables, with a dot; "" if statements name it
	commit string // an expression that makes commits wait for the disk

	texts sync.Map // the statements' texts as they are sent, by *sqlstore.Statement
}

// commitLevels are the values of synchronous_commit, the weakest first.
const commitLevels = "off local remote_write on remote_apply"

// durable returns an expression that sets synchronous_commit to level until the
// transaction ends, unless it is stronger. It is part of the statements because the
// setting may change at any time, by a reload or by what others left behind on a pooled
// connection, and a crash would forget what was acknowledged.
func durable(level string) string {
	const current = "current_setting('synchronous_commit')"
	return fmt.Sprintf("set_config('synchronous_commit', CASE WHEN strpos('%s', %s) < strpos('%s', '%s') THEN '%s' ELSE %s END, true)",
		commitLevels, current, commitLevels, level, level, current)
}

// settings reads the settings of server and connections, once.
//
// Batches must run at READ COMMITTED: they wait for the head row first and read the line
// then. Connections may differ, as they do when a setting was left behind in a pooler's
// connection: under another level the server refuses a batch instead of letting it read
// an old snapshot, and it is sent again.
func (s *store) settings(ctx context.Context) (*settings, error) {
	if read := s.read.Load(); read != nil {
		return read, nil
	}
	var level, commit, usual, readOnly, schema string
	var replica bool
	err := s.from.with(ctx, func(c *pgx.Conn) error {
		return c.QueryRow(ctx, `SELECT pg_is_in_recovery(), current_setting('default_transaction_isolation'),
			current_setting('synchronous_commit'), (SELECT reset_val FROM pg_settings WHERE name = 'synchronous_commit'),
			current_setting('default_transaction_read_only'),
			(SELECT quote_ident(n.nspname) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = $1::text::regclass)`,
			pgx.QueryExecModeExec, s.tables.head).Scan(&replica, &level, &commit, &usual, &readOnly, &schema)
	})
	if err != nil {
		return nil, s.withCtxErr(ctx, err)
	}
	if replica {
		return nil, fmt.Errorf("%w: postgres: the server is a read replica, locks need the primary", driver.ErrDenied)
	}
	if readOnly == "on" {
		return nil, fmt.Errorf("%w: postgres: default_transaction_read_only is on for these connections, and locks are written: "+
			"set it off for this role or database", driver.ErrDenied)
	}
	if strings.Index(commitLevels, usual) > strings.Index(commitLevels, commit) {
		commit = usual // others may have left a weaker one behind
	}
	if commit == "off" {
		commit = "on"
	}
	read := &settings{schema: schema + ".", commit: durable(commit)}
	if level != "read committed" {
		read.begin = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"
	}
	s.read.Store(read)
	return read, nil
}

// text returns a statement as it is sent. Before the settings were read, the search path
// decides which tables it is about.
func (s *store) text(q *sqlstore.Statement) string {
	read := s.read.Load()
	if read == nil {
		read = &settings{commit: durable("on")}
	}
	return read.text(q)
}

func (x *settings) text(q *sqlstore.Statement) string {
	if text, ok := x.texts.Load(q); ok {
		return text.(string)
	}
	text := strings.NewReplacer(schemaMark, x.schema, durableMark, "(SELECT "+x.commit+") IS NOT NULL").Replace(q.Text)
	x.texts.Store(q, text)
	return text
}

// before returns what has to be sent before a batch: the beginning of a transaction, and
// that its commit waits for the disk, unless one of its statements says how it commits.
func (x *settings) before(b *sqlstore.Batch) (before []string) {
	if b.ReadOnly {
		return nil
	}
	if x.begin != "" {
		before = append(before, x.begin)
	}
	for i := range b.Steps {
		if text := b.Steps[i].Statement.Text; strings.Contains(text, durableMark) || strings.Contains(text, "synchronous_commit") {
			return before
		}
	}
	return append(before, "SELECT "+x.commit)
}
