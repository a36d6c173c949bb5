// Package mysql keeps lines of claims in a database of MySQL, version 8.0.1 or
// later, or MariaDB, version 10.6 or later.
//
// It does not promise more than the server that answers: after a failover to an
// asynchronous replica the last grants may be forgotten, and somebody else may
// hold while the old holder does not know yet. Tokens rise even then, since they
// are never below the server's clock. Expiry is judged by that clock too, so a
// clock that is set forward ends holds early. A server that takes no writes is
// refused, at every grant and every beat and also where this user could write all the
// same, and so is one of several that all take them (Galera, group
// replication with several primaries): a row that is locked on one is not locked
// on the others. And it does not push: whoever waits in another process looks
// for its turn every 2 to 50 milliseconds, once for all who wait there for the
// same name.
//
// What it does promise: first come first served between all who use the tables,
// one round trip to take and to give back a free name, tokens that never repeat
// for a name, no deadlocks between its own transactions under any isolation
// level, and [sqllock.Guard], with which a transaction commits as the holder or
// not at all.
//
// The tables are made by [Engine.Migrate] or "pawl migrate". On a *sql.DB whose
// DSN has multiStatements=true, and on a pool of its own, whatever needs several
// statements travels in one round trip; on any other it takes one for each, and
// a process that stalls in between keeps others from the name until it goes on.
//
// URLs: "mysql://user:password@host:port/database"; ?prefix= puts all names and
// records behind a prefix, ?table_prefix= is what the tables' names begin with,
// "pawl_" if it is not given; ?tls=, ?timeout=, ?max_conns= and ?socket= are
// about the connection, ?multi_primary=allow uses one server of several that
// take writes, which is right only if all clients use the same one.
package mysql

import (
	"context"
	"database/sql"
	"sync"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/sqllock"
)

func init() { driver.Register("mysql", openURL) }

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
	prefix       string
	tables       string
	multiPrimary bool
}

// Prefix puts all names and record keys behind p, so that several users of the
// same tables do not meet.
func Prefix(p string) Option { return func(o *options) { o.prefix = p } }

// TablePrefix is what the names of the tables begin with: letters, digits and
// underscores, and before them a database and a dot if need be. "pawl_" if it is
// not given.
func TablePrefix(p string) Option { return func(o *options) { o.tables = p } }

// AllowMultiPrimary uses one server of several that all take writes. It is right
// only if all clients use the same one.
func AllowMultiPrimary() Option { return func(o *options) { o.multiPrimary = true } }

// New returns an engine on db, which it does not close. It does not connect yet:
// a server that cannot be used is reported by the first call. The engine keeps
// one of db's connections for its beats, so that they never wait behind the
// user's own work; a db that is limited to one is refused.
func New(db *sql.DB, opts ...Option) (*Engine, error) {
	return newEngine(&foreign{db: db}, opts)
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
	e := &Engine{store: &store{from: from, tables: t, multiPrimary: o.multiPrimary}}
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

// Close ends the engine's sessions with their claims, its goroutine and the
// connections of its own.
func (e *Engine) Close() error {
	e.closing.Do(func() { e.closed = driver.Join(e.Engine.Close(), e.store.close()) })
	return e.closed
}
