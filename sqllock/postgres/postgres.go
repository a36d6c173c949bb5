// Package postgres keeps lines of claims in a PostgreSQL database, of version 9.5
// or later.
//
// It does not promise more than the server that answers: after a failover to an
// asynchronous replica the last grants may be forgotten, and a new holder may hold
// while the old one does not know yet. Tokens grow even then, since they are never below
// the server's clock. Claims expire by that clock too, so a clock that is set forward
// ends holds early. A read replica is refused.
//
// What it does promise: first come first served between all users of the tables, one
// round trip to take and to release a free name, waiters that are notified of their turn
// by NOTIFY, tokens that never repeat for a name, and sqllock.Guard, with which a
// transaction commits as the holder or not at all. Behind a pooler that assigns
// connections per transaction, where LISTEN cannot work, waiters poll instead, every 2
// to 50 milliseconds, behind many others more seldom; nothing else changes.
//
// Connections whose client_encoding is not UTF8 are refused with driver.ErrUnsupported.
//
// The tables are made by [Engine.Migrate] or "pawl migrate". An engine keeps up to four
// connections of its own beside a pgx pool: three for beats, so that they never queue
// behind the user's own work, and one that listens while there are waiters. Of a *sql.DB
// it keeps one connection for beats, so that the user's hooks have run on it.
//
// URLs: "postgres://user:password@host:port/database" with the parameters of libpq;
// ?prefix= stores all names and records behind a prefix, ?table_prefix= is the beginning
// of the tables' names, by default "pawl_". A dialer of driver.WithDialer also makes the
// connection that listens and those that cancel statements.
package postgres

import (
	"context"
	"crypto/rand"
	"database/sql"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/sqllock/internal/sqlline"
)

// line is what the engines of all dialects share.
type line = sqlline.Engine

// Engine keeps lines of claims in a database. It is safe for concurrent use.
type Engine struct {
	*line
	store *store

	closing sync.Once
	closed  error // the result of Close; written once
}

// An Option changes how an engine uses the database.
type Option func(*options)

type options struct {
	prefix string
	tables string
}

// WithPrefix stores all names and record keys behind p, so that several users of the
// same tables do not meet.
func WithPrefix(p string) Option { return func(o *options) { o.prefix = p } }

// WithTablePrefix sets the beginning of the tables' names: letters, digits and
// underscores, optionally after a schema and a dot. The default is "pawl_".
func WithTablePrefix(p string) Option { return func(o *options) { o.tables = p } }

// New returns an engine on a pool, which it does not close. It does not connect: a server
// that cannot be used is reported by the first call.
func New(pool *pgxpool.Pool, opts ...Option) (*Engine, error) {
	return newEngine(&poolSource{pool: pool}, opts)
}

// NewDB returns an engine on a *sql.DB of pgx's stdlib driver, which it does not close.
// A *sql.DB of another driver is refused by the first call, since it cannot send several
// statements at once. The engine keeps one of its connections for beats, from the first
// call on; a db that is limited to one connection is refused.
func NewDB(db *sql.DB, opts ...Option) (*Engine, error) {
	return newEngine(&dbSource{db: db}, opts)
}

func newEngine(from source, opts []Option) (*Engine, error) {
	o := options{tables: "pawl_"}
	for _, opt := range opts {
		opt(&o)
	}
	t, err := tablesOf(o.tables)
	if err != nil {
		return nil, err
	}
	e := &Engine{store: &store{from: from, tables: t, owner: strings.ToLower(rand.Text()[:10])}}
	if e.line, err = sqlline.New(dialect(e.store), o.prefix); err != nil {
		return nil, err
	}
	if e.store.beats, err = from.keep(); err != nil {
		return nil, err
	}
	return e, nil
}

// Retried returns how often the server rolled a batch of this engine back because of
// concurrent transactions and it was sent again. It stays 0 where only this package uses
// the tables, and the connections' isolation level is READ COMMITTED.
func (e *Engine) Retried() int64 { return e.store.retries.Load() }

// Close ends the engine's sessions with their claims, its goroutines and its own
// connections.
func (e *Engine) Close() error {
	e.closing.Do(func() { e.closed = driver.Join(e.line.Close(), e.store.close()) })
	return e.closed
}

// Schema returns the statements that Migrate runs, for users that run them themselves.
func (e *Engine) Schema() string { return e.store.tables.schema() }

// Migrate makes the tables where they are missing. It may be called concurrently and
// repeatedly; it needs the right to create tables.
func (e *Engine) Migrate(ctx context.Context) error { return e.store.migrate(ctx) }
