// Package postgres keeps lines of claims in a PostgreSQL database, of version 9.5
// or later.
//
// It does not promise more than the server that answers: after a failover to an
// asynchronous replica the last grants may be forgotten, and somebody else may
// hold while the old holder does not know yet. Tokens rise even then, since they
// are never below the server's clock. Expiry is judged by that clock too, so a
// clock that is set forward ends holds early. A read replica is refused.
//
// What it does promise: first come first served between all who use the tables,
// one round trip to take and to give back a free name, a waiter told of its turn
// by NOTIFY, tokens that never repeat for a name, and [sqllock.Guard], with which
// a transaction commits as the holder or not at all. Behind a pooler that hands
// out connections by transaction, where LISTEN cannot work, waiters look for
// their turn instead, every 2 to 50 milliseconds; nothing else changes.
//
// The tables are made by [Engine.Migrate] or "pawl migrate". An engine keeps up
// to four connections of its own beside a pgx pool: three for beats, so that they
// never wait behind the user's own work, and one to be told of turns while somebody
// waits. Of a *sql.DB it keeps one connection for beats, so that it is one on which
// the user's hooks have run.
//
// URLs: "postgres://user:password@host:port/database" and all that libpq takes
// there; ?prefix= puts all names and records behind a prefix, ?table_prefix= is
// what the tables' names begin with, "pawl_" if it is not given.
package postgres

import (
	"context"
	"database/sql"
	"sync"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/sqllock"
)

func init() {
	driver.Register("postgres", openURL)
	driver.Register("postgresql", openURL)
}

// Engine keeps lines of claims in a database. It is safe for concurrent use.
type Engine struct {
	*sqllock.Engine
	store *store

	closing sync.Once
	closed  error // what Close found; written once
}

// An Option changes how an engine uses the database.
type Option func(*options)

type options struct {
	prefix string
	tables string
}

// Prefix puts all names and record keys behind p, so that several users of the
// same tables do not meet.
func Prefix(p string) Option { return func(o *options) { o.prefix = p } }

// TablePrefix is what the names of the tables begin with: letters, digits and
// underscores, and before them a schema and a dot if need be. "pawl_" if it is
// not given.
func TablePrefix(p string) Option { return func(o *options) { o.tables = p } }

// New returns an engine on a pool, which it does not close. It does not connect
// yet: a server that cannot be used is reported by the first call.
func New(pool *pgxpool.Pool, opts ...Option) (*Engine, error) {
	return newEngine(&poolSource{pool: pool}, opts)
}

// NewDB returns an engine on a *sql.DB of pgx's stdlib driver, which it does not
// close. That of another driver is refused by the first call: steps that must
// travel together cannot. The engine keeps one of its connections for beats, from
// the first call on; a db that is limited to one is refused.
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
	e := &Engine{store: newStore(from, t)}
	d, err := dialect(e)
	if err != nil {
		return nil, err
	}
	if e.Engine, err = sqllock.New(d, o.prefix); err != nil {
		return nil, err
	}
	return e, nil
}

// Open starts a session, and finds out at the first whether the database can be
// used.
func (e *Engine) Open(ctx context.Context, o driver.SessionOptions) (driver.Session, error) {
	if err := e.store.ready(ctx); err != nil {
		return nil, err
	}
	return e.Engine.Open(ctx, o)
}

// Close ends the engine's sessions with their claims, its goroutines and the
// connections of its own.
func (e *Engine) Close() error {
	e.closing.Do(func() { e.closed = driver.Join(e.Engine.Close(), e.store.close()) })
	return e.closed
}
