package mysql

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/sqllock/internal/sqlstore"
)

// store runs batches: one statement by itself, several between START TRANSACTION and
// COMMIT, in one text where the connections permit that, and one by one where they do
// not.
type store struct {
	from         source
	ender        queryEnder
	tables       tables
	multiPrimary bool

	known   atomic.Pointer[server] // nil: not read yet
	checked atomic.Bool            // the tables were found to be of this version
	retries atomic.Int64           // batches that the server rolled back and that were sent again
}

var _ sqlstore.Store = (*store)(nil)

// Run executes a batch. A batch that the server rolled back because of concurrent
// transactions, or because it waited for a row too long, is sent again until ctx ends.
func (s *store) Run(ctx context.Context, b *sqlstore.Batch) error {
	k, err := s.server(ctx)
	if err != nil {
		return err
	}
	return s.withCtxErr(ctx, b.Repeat(ctx, func() ([]sqlstore.Rows, error) { return s.send(ctx, b, k) }, func(err error) bool {
		if isRefused(err) {
			s.retries.Add(1)
			return true
		}
		return isCode(err, lockWaitTimeout) && !b.NoWait
	}))
}

// send sends a batch once. The statements that take and release a free name are
// prepared where that is possible: parsing them costs the server as much as executing
// them.
func (s *store) send(ctx context.Context, b *sqlstore.Batch, k *server) (got []sqlstore.Rows, err error) {
	if len(b.Steps) == 1 && !b.Beat {
		if part := k.resultInOK(&b.Steps[0]); part != nil {
			st, err := s.from.stmt(ctx, b.Steps[0].Statement, strings.Join(part.pieces, "?"))
			if err != nil {
				return nil, err
			}
			if st != nil {
				one, err := lastInsertID(st.ExecContext(ctx, part.args(b.Steps[0].Args)...))
				return []sqlstore.Rows{one}, err
			}
		}
	}
	err = s.from.with(ctx, b, func(c *sql.Conn) (err error) {
		tag := newTag()
		got, err = sendOn(ctx, c, b, k, tag)
		if err != nil && ctx.Err() != nil {
			s.ender.end(tag)
		}
		return err
	})
	return got, err
}

// examine runs fn with a connection for statements that only read.
func (s *store) examine(ctx context.Context, fn func(sqlstore.Query) error) error {
	return s.withCtxErr(ctx, s.from.with(ctx, &sqlstore.Batch{}, func(c *sql.Conn) error {
		return fn(func(ctx context.Context, text string) (rows [][]string, err error) {
			got, err := query(ctx, c, text)
			for _, columns := range got {
				var row []string
				for _, column := range columns {
					row = append(row, string(column.([]byte)))
				}
				rows = append(rows, row)
			}
			return rows, s.withCtxErr(ctx, err)
		})
	}))
}

// sendOn sends a batch on a connection and returns its rows. They are delivered only
// when the batch is known to be committed.
func sendOn(ctx context.Context, c *sql.Conn, b *sqlstore.Batch, k *server, tag string) ([]sqlstore.Rows, error) {
	if known, _ := leftOpen(c); len(b.Steps) == 1 && (known || b.ReadOnly) {
		if part := k.resultInOK(&b.Steps[0]); part != nil {
			one, err := lastInsertID(c.ExecContext(ctx, string(part.append([]byte(tag), b.Steps[0].Args))))
			return []sqlstore.Rows{one}, err
		}
		if t := k.template(b.Steps[0].Statement); len(t.parts) == 1 && !b.Steps[0].Required {
			one, err := query(ctx, c, string(t.append([]byte(tag), b.Steps[0].Args)))
			return []sqlstore.Rows{one}, err
		}
	}
	if !k.multi {
		return k.sendEach(ctx, c, b, tag)
	}
	got, err := k.sendAll(ctx, c, b, tag)
	if err != nil && !b.ReadOnly {
		rollBack(ctx, c, err)
	}
	return got, err
}

// rollBack ends the transaction that a failed batch left open. If its ctx has ended, the
// client has closed the connection, and the server rolls back by itself. A transaction
// that the application left open is not ours to end.
func rollBack(ctx context.Context, c *sql.Conn, why error) {
	if isCode(why, inTransaction) {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if _, err := c.ExecContext(ctx, rollback); err != nil {
		discard(c)
	}
}

// The beginning and end of a batch. At READ COMMITTED a statement reads what is there
// when it begins, and the gaps between rows are not locked. Without NO CHAIN a session's
// completion_type could begin another transaction, in which the following statements
// would stay uncommitted.
const (
	setLevel = "SET TRANSACTION ISOLATION LEVEL READ COMMITTED"
	begin    = "START TRANSACTION"
	commit   = "COMMIT AND NO CHAIN NO RELEASE"
	rollback = "ROLLBACK AND NO CHAIN NO RELEASE"
)

// sendAll sends all steps as one text.
func (k *server) sendAll(ctx context.Context, c *sql.Conn, b *sqlstore.Batch, tag string) ([]sqlstore.Rows, error) {
	text, returning := k.join(b, tag)
	got := make([]sqlstore.Rows, len(b.Steps))
	r, err := c.QueryContext(ctx, string(text))
	if err != nil {
		if len(returning) == 0 {
			return nil, err
		}
		return onPurpose(b, got, returning[0], err)
	}
	defer r.Close()
	for n := range returning {
		if n > 0 && !r.NextResultSet() {
			return onPurpose(b, got, returning[n], r.Err())
		}
		if got[returning[n]], err = collect(r); err != nil {
			return onPurpose(b, got, returning[n], err)
		}
	}
	for r.NextResultSet() { // only COMMIT is left, which may fail
	}
	return got, driver.Join(r.Err(), r.Close())
}

// join returns the text of a batch, and the steps that return a result, in order.
func (k *server) join(b *sqlstore.Batch, tag string) (text []byte, returning []int) {
	if !b.ReadOnly {
		text = append(text, setLevel+";"+begin+";"...)
	}
	for i := range b.Steps {
		t := k.template(b.Steps[i].Statement)
		text = append(t.append(append(text, tag...), b.Steps[i].Args), ';')
		if t.returns {
			returning = append(returning, i)
		}
	}
	if b.ReadOnly {
		return text[:len(text)-1], returning
	}
	return append(text, commit...), returning
}

var errShort = errors.New("mysql: the server sent fewer results than statements that have one")

// onPurpose distinguishes a batch that failed on purpose, at a required step or at a
// missing row, from one that failed otherwise.
func onPurpose(b *sqlstore.Batch, got []sqlstore.Rows, at int, err error) ([]sqlstore.Rows, error) {
	if err == nil {
		return nil, errShort
	}
	b.FailedAt(at, isCode(err, outOfRange))
	return got, err
}

// sendEach sends the statements one by one, for a client that cannot send several.
func (k *server) sendEach(ctx context.Context, c *sql.Conn, b *sqlstore.Batch, tag string) (got []sqlstore.Rows, err error) {
	run := func(text string) error {
		_, err := c.ExecContext(ctx, text)
		return err
	}
	if !b.ReadOnly {
		defer func() {
			if err != nil {
				rollBack(ctx, c, err)
			}
		}()
		if err = run(setLevel); err == nil {
			err = run(begin)
		}
		if err != nil {
			return nil, err
		}
	}
	got = make([]sqlstore.Rows, len(b.Steps))
	for i := range b.Steps {
		if got[i], err = k.sendStep(ctx, c, &b.Steps[i], tag); err != nil {
			return onPurpose(b, got, i, err)
		}
	}
	if !b.ReadOnly {
		err = run(commit)
	}
	return got, err
}

func (k *server) sendStep(ctx context.Context, c *sql.Conn, s *sqlstore.Step, tag string) (got sqlstore.Rows, err error) {
	for _, t := range k.template(s.Statement).parts {
		text := string(t.append([]byte(tag), s.Args))
		if !t.returns {
			_, err = c.ExecContext(ctx, text)
		} else {
			got, err = query(ctx, c, text)
		}
		if err != nil {
			return nil, err
		}
	}
	return got, nil
}
