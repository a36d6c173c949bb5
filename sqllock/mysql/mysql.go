// Package mysql keeps lines of claims in a database of MySQL, version 8.0.1 or
// later, or MariaDB, version 10.6 or later.
//
// It does not promise more than the server that answers: after a failover to an
// asynchronous replica the last grants may be forgotten, and a new holder may hold while
// the old one does not know yet. Tokens grow even then, since they are never below the
// server's clock. Claims expire by that clock too, so a clock that is set forward ends
// holds early. A read-only server is refused, at every grant and every beat, also if
// this user could write to it all the same. Refused as well is one of several servers
// that all accept writes (Galera, group replication with several primaries): a row that
// is locked on one is not locked on the others. And waiters are not notified: those in
// other processes poll every 2 to 50 milliseconds, behind many others more seldom, one
// read for all waiters of a name in a process.
//
// What it does promise: first come first served between all users of the tables, one
// round trip to take and to release a free name, tokens that never repeat for a name, no
// deadlocks between its own transactions under any isolation level, and sqllock.Guard,
// with which a transaction commits as the holder or not at all.
//
// The tables are made by [Engine.Migrate] or "pawl migrate". On a *sql.DB whose DSN has
// multiStatements=true, and on a pool of its own, the engine sends several statements in
// one round trip; on any other each takes one, and a process that stalls in between
// keeps the name's row locked until it goes on.
//
// URLs: "mysql://user:password@host:port/database"; ?prefix= stores all names and
// records behind a prefix, ?table_prefix= is the beginning of the tables' names, by
// default "pawl_"; ?tls=, ?timeout=, ?max_conns= and ?socket= configure the connection,
// ?multi_primary=allow permits one server of several that accept writes, which is right
// only if all clients use the same one. A dialer of driver.WithDialer makes all
// connections.
package mysql

import (
	"context"
	"database/sql"
	"sync"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/sqllock/internal/sqlline"
	"github.com/pawl-go/pawl/sqllock/internal/sqlstore"
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
	prefix       string
	tables       string
	multiPrimary bool
}

// WithPrefix stores all names and record keys behind p, so that several users of the
// same tables do not meet.
func WithPrefix(p string) Option { return func(o *options) { o.prefix = p } }

// WithTablePrefix sets the beginning of the tables' names: letters, digits and
// underscores, optionally after a database and a dot. The default is "pawl_".
func WithTablePrefix(p string) Option { return func(o *options) { o.tables = p } }

// WithMultiPrimary permits one server of several that all accept writes. It is right
// only if all clients use the same one.
func WithMultiPrimary() Option { return func(o *options) { o.multiPrimary = true } }

// New returns an engine on db, which it does not close. It does not connect: a server
// that cannot be used is reported by the first call. The engine keeps one of db's
// connections for beats, so that they never queue behind the user's own work; a db that
// is limited to one connection is refused.
func New(db *sql.DB, opts ...Option) (*Engine, error) {
	return newEngine(&userSource{db: db, kept: sqlstore.NewKeptConn(db)}, opts)
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
	e := &Engine{store: &store{from: from, ender: queryEnder{from: from}, tables: t, multiPrimary: o.multiPrimary}}
	if e.line, err = sqlline.New(dialect(e.store), o.prefix); err != nil {
		return nil, err
	}
	return e, nil
}

// Retried returns how often the server rolled a batch of this engine back because of
// concurrent transactions and it was sent again. It stays 0 where only this package uses
// the tables.
func (e *Engine) Retried() int64 { return e.store.retries.Load() }

// Close ends the engine's sessions with their claims, its goroutine and its own
// connections.
func (e *Engine) Close() error {
	e.closing.Do(func() {
		err := e.line.Close()
		e.store.ender.close()
		e.closed = driver.Join(err, e.store.from.close())
	})
	return e.closed
}

// Schema returns the statements that Migrate runs, for users that run them themselves.
func (e *Engine) Schema() string { return e.store.tables.schema() }

// Migrate makes the tables where they are missing. It may be called concurrently and
// repeatedly; it needs the right to create tables.
func (e *Engine) Migrate(ctx context.Context) error { return e.store.migrate(ctx) }
