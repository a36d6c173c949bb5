package mysql

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/pawl-go/pawl/driver"
)

// The client's field for the server's flags is there, and says what was left.
func TestLeftoversAreRecognised(t *testing.T) {
	t.Parallel()
	addr, base := database(t)
	c, err := openDB(t, addr, base, "").Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, step := range []struct {
		statement string
		want      error
	}{
		{"", nil}, {"BEGIN", errInTransaction}, {"SELECT 1", errInTransaction}, {"COMMIT", nil},
		{"SET autocommit = 0", errAutocommitOff}, {"SELECT * FROM pawl_head FOR UPDATE", errInTransaction},
		{"ROLLBACK", errAutocommitOff}, {"SET autocommit = 1", nil},
	} {
		if step.statement != "" {
			if _, err := c.ExecContext(t.Context(), step.statement); err != nil {
				t.Fatal(err)
			}
		}
		if known, err := leftOpen(c); !known || !errors.Is(err, step.want) {
			t.Errorf("after %q: %v, %v; want %v", step.statement, known, err, step.want)
		}
	}
}

// An otherClient wraps connections, as tracers do.
type otherClient struct{ sqldriver.Connector }

type wrappedConn interface {
	sqldriver.Conn
	sqldriver.QueryerContext
	sqldriver.ExecerContext
	sqldriver.ConnPrepareContext
	sqldriver.ConnBeginTx
	sqldriver.SessionResetter
	sqldriver.Validator
}

func (o otherClient) Connect(ctx context.Context) (sqldriver.Conn, error) {
	c, err := o.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return struct{ wrappedConn }{c.(wrappedConn)}, nil
}

func wrappedDB(t *testing.T, addr, base, params string) *sql.DB {
	t.Helper()
	cfg, err := mysql.ParseDSN("root@tcp(" + addr + ")/" + base + params)
	if err != nil {
		t.Fatal(err)
	}
	inner, err := mysql.NewConnector(cfg)
	if err != nil {
		t.Fatal(err)
	}
	db := sql.OpenDB(otherClient{inner})
	t.Cleanup(func() { db.Close() })
	return db
}

// Where the client does not tell what was left, the server does: a lock is not taken
// inside the application's transaction, which goes on.
func TestATransactionLeftOnAWrappedConnectionIsLeftAlone(t *testing.T) {
	t.Parallel()
	addr, base := database(t)
	for _, params := range []string{"", "?multiStatements=true"} {
		db := wrappedDB(t, addr, base, params)
		db.SetMaxOpenConns(2) // the one that is kept, and the application's
		e, err := New(db)
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		s, err := e.Open(t.Context(), driver.SessionOptions{ID: "s", TTL: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		c := driver.Claim{ID: "00000000000000000000000000000001", Try: 1, Name: "m" + params, Need: 1, Limit: 1, Queue: true}
		for _, statement := range []string{"CREATE TABLE IF NOT EXISTS work (id INT)", "TRUNCATE work", "BEGIN", "INSERT INTO work VALUES (1)"} {
			if _, err := db.ExecContext(t.Context(), statement); err != nil {
				t.Fatal(err)
			}
		}
		if st, err := s.Enter(t.Context(), c); !errors.Is(err, driver.ErrUnreachable) {
			t.Errorf("%q: inside the application's transaction: %+v, %v", params, st, err)
		}
		if _, err := db.ExecContext(t.Context(), "COMMIT"); err != nil {
			t.Fatal(err)
		}
		var rows int
		if err := db.QueryRowContext(t.Context(), "SELECT count(*) FROM work").Scan(&rows); err != nil || rows != 1 {
			t.Errorf("%q: the application's work: %d rows, %v", params, rows, err)
		}
		if st, err := s.Enter(t.Context(), c); err != nil || !st.Held {
			t.Errorf("%q: after it: %+v, %v", params, st, err)
		}
	}
}

// Where the client does not tell what was left, another connection is found all the same,
// also by beats, whose connection is kept and may be the one that was left.
func TestAnotherConnectionIsUsedThanAWrappedOneThatWasLeft(t *testing.T) {
	t.Parallel()
	addr, base := database(t)
	for i, params := range []string{"", "?multiStatements=true"} {
		db := wrappedDB(t, addr, base, params)
		for _, statement := range []string{"CREATE TABLE IF NOT EXISTS work (id INT)", "TRUNCATE work", "BEGIN", "INSERT INTO work VALUES (1)"} {
			if _, err := db.ExecContext(t.Context(), statement); err != nil {
				t.Fatal(err)
			}
		}
		e, err := New(db)
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		s, err := e.Open(t.Context(), driver.SessionOptions{ID: "s", TTL: time.Minute}) // keeps the connection that was left
		if err != nil {
			t.Fatal(err)
		}
		var out [1]driver.Standing
		for round := range 3 {
			c := driver.Claim{ID: fmt.Sprintf("%030d%d%d", 7, i, round), Try: 1, Name: fmt.Sprint("w", i, round), Need: 1, Limit: 1, Queue: true}
			if st, err := s.Enter(t.Context(), c); err != nil || !st.Held {
				t.Fatalf("%q, round %d: %+v, %v", params, round, st, err)
			}
			if err := s.Beat(t.Context(), []driver.Claim{c}, out[:]); err != nil || out[0].Valid == 0 {
				t.Errorf("%q, round %d: the beat: %+v, %v", params, round, out[0], err)
			}
		}
		if db.Stats().Idle == 0 {
			t.Fatal("the connection that was left is not in the pool")
		}
		var conns []*sql.Conn
		for range db.Stats().Idle {
			c, err := db.Conn(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			conns = append(conns, c)
		}
		for _, c := range conns {
			if _, err := c.ExecContext(t.Context(), "COMMIT"); err != nil {
				t.Fatal(err)
			}
			c.Close()
		}
		var rows int
		if err := db.QueryRowContext(t.Context(), "SELECT count(*) FROM work").Scan(&rows); err != nil || rows != 1 {
			t.Errorf("%q: the application's work: %d rows, %v", params, rows, err)
		}
	}
}

// A name is the same lock whatever character set a connection has.
func TestANameIsOneLockInEveryCharacterSet(t *testing.T) {
	t.Parallel()
	addr, base := database(t)
	const name = "größe/日本"
	var held []string
	for i, params := range []string{"charset=utf8mb4", "charset=latin1", "character_set_client=latin1&character_set_connection=utf8mb4", "charset=binary"} {
		for _, more := range []string{"", "&multiStatements=true"} {
			e, err := New(openDB(t, addr, base, params+more))
			if err != nil {
				t.Fatal(err)
			}
			defer e.Close()
			s, err := e.Open(t.Context(), driver.SessionOptions{ID: params + more, TTL: time.Minute})
			if err != nil {
				t.Fatal(err)
			}
			c := driver.Claim{ID: fmt.Sprintf("%031d%d", i, len(more)%10), Try: 1, Name: name, Need: 1, Limit: 1, Queue: true}
			st, err := s.Enter(t.Context(), c)
			if err != nil {
				t.Fatalf("%s: %v", params, err)
			}
			if st.Held {
				held = append(held, params+more)
			}
		}
	}
	if len(held) != 1 {
		t.Errorf("held by %d: %v", len(held), held)
	}
}

func TestAPoolThatReadsUncommittedIsRefused(t *testing.T) {
	t.Parallel()
	addr, base := database(t)
	e, err := New(openDB(t, addr, base, "tx_isolation='READ-UNCOMMITTED'"))
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if _, err := e.Open(t.Context(), driver.SessionOptions{ID: "s", TTL: time.Minute}); !errors.Is(err, driver.ErrUnsupported) {
		t.Errorf("opened: %v", err)
	}
}
