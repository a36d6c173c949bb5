package postgres

import (
	"context"
	"sync/atomic"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/sqllock/internal/sqlstore"
)

// store runs batches: one statement by itself, several as a pgx.Batch, which PostgreSQL
// executes as one transaction. Where the connections' isolation level would not do, the
// batch is put between BEGIN and COMMIT.
type store struct {
	from   source
	beats  source // connections that do not queue behind the user's work
	tables tables
	owner  string // this process, see tables.inbox

	read    atomic.Pointer[settings] // nil: not read yet
	checked atomic.Bool              // the tables were found to be of this version
	retries atomic.Int64             // batches that the server refused and that were sent again
}

var _ sqlstore.Store = (*store)(nil)

// Run executes a batch. A batch that the server refused because of concurrent
// transactions is sent again until ctx ends.
func (s *store) Run(ctx context.Context, b *sqlstore.Batch) error {
	read, err := s.settings(ctx)
	if err != nil {
		return err
	}
	with := s.from.with
	if b.Beat {
		with = s.onBeats
	}
	return s.withCtxErr(ctx, b.Repeat(ctx, func() (got []sqlstore.Rows, err error) {
		err = s.with(ctx, with, func(c *pgx.Conn) (err error) {
			got, err = send(ctx, c, b, read)
			return err
		})
		if isCode(err, undefinedTable) {
			s.read.Store(nil) // the tables may have moved to another schema
		}
		return got, err
	}, func(err error) bool {
		if isRefused(err) {
			s.retries.Add(1)
			return true
		}
		return false
	}))
}

// examine runs fn with a connection for statements that only read.
func (s *store) examine(ctx context.Context, fn func(sqlstore.Query) error) error {
	return s.withCtxErr(ctx, s.from.with(ctx, func(c *pgx.Conn) error {
		return fn(func(ctx context.Context, text string) (rows [][]string, err error) {
			r, err := c.Query(ctx, text, pgx.QueryExecModeSimpleProtocol) // every column comes as text
			if err != nil {
				return nil, s.withCtxErr(ctx, err)
			}
			defer r.Close()
			for r.Next() {
				var row []string
				for _, column := range r.RawValues() {
					row = append(row, string(column))
				}
				rows = append(rows, row)
			}
			return rows, s.withCtxErr(ctx, r.Err())
		})
	}))
}

func (s *store) close() error {
	s.beats.close()
	s.from.close()
	return nil
}

// send sends a batch in one go and returns its rows.
func send(ctx context.Context, c *pgx.Conn, b *sqlstore.Batch, read *settings) ([]sqlstore.Rows, error) {
	before := read.before(b)
	if len(b.Steps) == 1 && len(before) == 0 {
		r, err := c.Query(ctx, read.text(b.Steps[0].Statement), args(&b.Steps[0])...)
		if err != nil {
			return nil, err
		}
		one, err := collect(r)
		return []sqlstore.Rows{one}, err
	}
	batch := &pgx.Batch{}
	for _, text := range before {
		batch.Queue(text)
	}
	for i := range b.Steps {
		batch.Queue(read.text(b.Steps[i].Statement), args(&b.Steps[i])...)
	}
	begun := len(before) > 0 && before[0] == read.begin
	if begun {
		batch.Queue("COMMIT")
	}
	res := c.SendBatch(ctx, batch)
	got, err := collectAll(res, b, len(before), begun)
	err = driver.Join(err, res.Close())
	if err != nil && begun && !c.IsClosed() && c.PgConn().TxStatus() != 'I' {
		_, _ = c.Exec(ctx, "ROLLBACK") // if that fails too, the connection is not used again
	}
	return got, err
}

func collectAll(res pgx.BatchResults, b *sqlstore.Batch, before int, begun bool) ([]sqlstore.Rows, error) {
	for range before {
		if _, err := res.Exec(); err != nil {
			return nil, err
		}
	}
	got := make([]sqlstore.Rows, len(b.Steps))
	for i := range b.Steps {
		r, err := res.Query()
		if err == nil {
			got[i], err = collect(r)
		}
		if err != nil {
			b.FailedAt(i, isCode(err, divisionByZero))
			return got, err
		}
	}
	if begun {
		if _, err := res.Exec(); err != nil {
			return nil, err
		}
	}
	return got, nil
}

// args returns the values of a step's parameters. Notes are bytes here: unlike a text of
// PostgreSQL they may contain a zero.
func args(s *sqlstore.Step) []any {
	all := make([]any, len(s.Statement.Params))
	for i, p := range s.Statement.Params {
		switch p {
		case sqlstore.Note:
			all[i] = []byte(s.Args.Text[p])
		case sqlstore.Names:
			all[i] = column(s.Args, func(a *sqlstore.Args) string { return a.Key() })
		case sqlstore.IDs:
			all[i] = column(s.Args, func(a *sqlstore.Args) string { return a.Text[sqlstore.ID] })
		case sqlstore.Tries:
			all[i] = column(s.Args, func(a *sqlstore.Args) int64 { return a.Num[sqlstore.Try] })
		case sqlstore.Tokens:
			all[i] = column(s.Args, func(a *sqlstore.Args) int64 { return a.Num[sqlstore.Token] })
		default:
			all[i] = s.Args.Arg(p)
		}
	}
	return all
}

// column returns one parameter of many rows.
func column[T any](a *sqlstore.Args, of func(*sqlstore.Args) T) []T {
	all := make([]T, len(a.List))
	for i, one := range a.List {
		all[i] = of(one)
	}
	return all
}
