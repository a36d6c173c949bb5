package mysql

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"sync"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/sqllock/internal/sqlstore"
)

// server is what is read of the server once.
type server struct {
	multi     bool     // several statements may be sent as one text
	database  string   // in which the tables are, unless their names say it; "" if none is chosen
	templates sync.Map // *sqlstore.Statement to *template
}

// server checks the server and what the connections can do, once.
func (s *store) server(ctx context.Context) (*server, error) {
	if k := s.known.Load(); k != nil {
		return k, nil
	}
	k := &server{}
	err := s.from.with(ctx, &sqlstore.Batch{}, func(c *sql.Conn) error {
		if err := s.inspect(ctx, c); err != nil {
			return err
		}
		var database sql.NullString
		if err := c.QueryRowContext(ctx, "SELECT DATABASE()").Scan(&database); err != nil {
			return err
		}
		k.database = database.String
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
		return nil, s.withCtxErr(ctx, err)
	}
	s.known.Store(k)
	return k, nil
}

// qualified names the engine's database in a statement, once it is known.
func (s *store) qualified(text string) string {
	if k := s.known.Load(); k != nil {
		return qualify(text, k.database)
	}
	return qualify(text, "")
}

// dirtyReads is the isolation level at which a waiter would see a grant that is not
// committed, and take it for its own.
const dirtyReads = "READ-UNCOMMITTED"

// inspect refuses a server on which locks would not hold.
func (s *store) inspect(ctx context.Context, c *sql.Conn) error {
	vars := map[string]string{}
	r, err := c.QueryContext(ctx, `SHOW VARIABLES WHERE Variable_name IN
		('read_only', 'transaction_read_only', 'tx_read_only', 'autocommit', 'tx_isolation', 'transaction_isolation', 'wsrep_on', 'wsrep_provider', 'group_replication_single_primary_mode')`)
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
	case on("read_only"): // also if this user could write all the same
		return fmt.Errorf("%w: mysql: the server takes no writes (read_only): it is a replica, locks need the primary", driver.ErrDenied)
	case on("transaction_read_only"), on("tx_read_only"):
		return errReadOnlySession
	case !on("autocommit"):
		return errAutocommitOff
	case vars["tx_isolation"] == dirtyReads, vars["transaction_isolation"] == dirtyReads:
		return fmt.Errorf("%w: mysql: these connections read at READ UNCOMMITTED, and a lock that is not committed may be rolled back: use another level",
			driver.ErrUnsupported)
	case s.multiPrimary:
		return nil
	case on("wsrep_on") && vars["wsrep_provider"] != "none": // without a provider it is a server of its own
		return fmt.Errorf("%w: mysql: the server is one of a Galera cluster, where a row that is locked on one node is not locked on the others; "+
			"if all clients use the same node, say so (multi_primary=allow)", driver.ErrUnsupported)
	case vars["group_replication_single_primary_mode"] == "OFF":
		return fmt.Errorf("%w: mysql: the server is one of a group with several primaries, where a row that is locked on one is not locked on the others; "+
			"if all clients use the same one, say so (multi_primary=allow)", driver.ErrUnsupported)
	}
	return nil
}
