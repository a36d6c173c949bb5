package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/pawl-go/pawl/driver"
)

// server is what is learnt of it once.
type server struct {
	multi     bool     // several statements may travel as one text
	templates sync.Map // *sqllock.Query to *template
}

// server looks once at the server and at what the connections can do.
func (s *store) server(ctx context.Context) (*server, error) {
	if k := s.known.Load(); k != nil {
		return k, nil
	}
	if err := s.from.usable(); err != nil {
		return nil, err
	}
	k := &server{}
	err := s.from.with(ctx, work, func(c *sql.Conn) error {
		if err := s.inspect(ctx, c); err != nil {
			return err
		}
		r, err := c.QueryContext(ctx, "SELECT 1; SELECT 2")
		if err != nil {
			if isCode(err, syntax) {
				return nil
			}
			return err
		}
		defer r.Close()
		for r.Next() || r.NextResultSet() {
			k.multi = true
		}
		return r.Err()
	})
	if err != nil {
		return nil, s.answer(ctx, err)
	}
	s.known.Store(k)
	return k, nil
}

// inspect refuses a server on which locks would not hold.
func (s *store) inspect(ctx context.Context, c *sql.Conn) error {
	vars := map[string]string{}
	r, err := c.QueryContext(ctx, `SHOW VARIABLES WHERE Variable_name IN
		('read_only', 'autocommit', 'wsrep_on', 'group_replication_single_primary_mode')`)
	if err != nil {
		return err
	}
	defer r.Close()
	for r.Next() {
		var name, value string
		if err := r.Scan(&name, &value); err != nil {
			return err
		}
		vars[strings.ToLower(name)] = value
	}
	if err := r.Err(); err != nil {
		return err
	}
	on := func(name string) bool { return vars[name] == "ON" || vars[name] == "1" }
	switch {
	case on("read_only"): // also where this user could write all the same
		return fmt.Errorf("%w: mysql: the server takes no writes (read_only): it is a replica, locks need the primary", driver.ErrDenied)
	case !on("autocommit"):
		return fmt.Errorf("%w: mysql: autocommit is off on these connections, and a lock that is not committed holds nobody back", driver.ErrUnsupported)
	case s.multiPrimary:
		return nil
	case on("wsrep_on"):
		return fmt.Errorf("%w: mysql: the server is one of a Galera cluster, where a row that is locked on one node is not locked on the others; "+
			"if all clients use the same node, say so (multi_primary=allow)", driver.ErrUnsupported)
	case vars["group_replication_single_primary_mode"] == "OFF":
		return fmt.Errorf("%w: mysql: the server is one of a group with several primaries, where a row that is locked on one is not locked on the others; "+
			"if all clients use the same one, say so (multi_primary=allow)", driver.ErrUnsupported)
	}
	return nil
}

// ready finds out whether the database can be used: a server that takes writes,
// with tables of the version that this program knows.
func (s *store) ready(ctx context.Context) error {
	if s.known.Load() != nil {
		return nil
	}
	if err := s.from.usable(); err != nil {
		return err
	}
	var version int
	err := s.from.with(ctx, work, func(c *sql.Conn) error {
		err := c.QueryRowContext(ctx, "SELECT version FROM "+s.tables.meta+" WHERE one = 1").Scan(&version)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		if err == nil && version == schemaVersion {
			s.marked(ctx, c)
		}
		return err
	})
	switch {
	case err != nil:
		return s.answer(ctx, err)
	case version != schemaVersion:
		return fmt.Errorf("mysql: the tables %s are of version %d, this program knows version %d: run pawl migrate of the newer one",
			s.tables.shown, version, schemaVersion)
	}
	if _, err = s.server(ctx); err != nil {
		return err
	}
	// The connection for beats is taken while there is one to be had.
	return s.answer(ctx, s.from.with(ctx, beats, func(*sql.Conn) error { return nil }))
}

// marked makes the row that notes swept tokens, in tables that were made before there
// was one. Without it those who make a row would hold the gap where it belongs, and
// be in each other's way. Who may not write meets that at the first lock.
func (s *store) marked(ctx context.Context, c *sql.Conn) {
	var one int
	if err := c.QueryRowContext(ctx, "SELECT 1 FROM "+s.tables.head+" WHERE name = ''").Scan(&one); errors.Is(err, sql.ErrNoRows) {
		_, _ = c.ExecContext(ctx, s.tables.named(sweptSQL))
	}
}
