package postgres

import (
	"context"
	"sync/atomic"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/sqllock/internal/sqlstore"
)

// store runs batches: one statement by itself, several as a pgx.Batch, which PostgreSQL
// executes as one transaction. Where the connections' defaults would not do, the batch
// is put between BEGIN and COMMIT.
type store struct {
	from   source
	beats  source // connections that do not queue behind the user's work
	tables tables

	around  atomic.Pointer[envelope] // nil: not read yet
	checked atomic.Bool              // the tables were found to be of this version
	retries atomic.Int64             // batches that the server refused and that were sent again
}

var _ sqlstore.Store = (*store)(nil)

// Run executes a batch. A batch that the server refused because of concurrent
// transactions is sent again until ctx ends.
func (s *store) Run(ctx context.Context, b *sqlstore.Batch) error {
	around, err := s.envelope(ctx)
	if err != nil {
		return err
	}
	with := s.from.with
	if b.Beat {
		with = s.onBeats
	}
	for n := 0; ; n++ {
		var got []rows
		err := s.with(ctx, with, func(c *pgx.Conn) (err error) {
			got, err = send(ctx, c, b, around)
			return err
		})
		switch {
		case b.Missing:
			return nil
		case err == nil || b.Aborted:
			return s.classify(deliver(b, got))
		case isRefused(err) && sqlstore.Backoff(ctx, n):
			s.retries.Add(1)
		default:
			return s.withCtxErr(ctx, err)
		}
	}
}

// Read executes a statement that only reads.
func (s *store) Read(ctx context.Context, step *sqlstore.Step) error {
	return s.Run(ctx, &sqlstore.Batch{Steps: []sqlstore.Step{*step}, ReadOnly: true})
}

func (s *store) close() error {
	s.beats.close()
	s.from.close()
	return nil
}

// send sends a batch in one go and returns its rows. They are delivered only when the
// batch is known to be committed: a server sends them before it commits.
func send(ctx context.Context, c *pgx.Conn, b *sqlstore.Batch, around *envelope) ([]rows, error) {
	if len(b.Steps) == 1 && (b.ReadOnly || around.isEmpty()) {
		r, err := c.Query(ctx, b.Steps[0].Statement.Text, args(&b.Steps[0])...)
		if err != nil {
			return nil, err
		}
		one, err := collect(r)
		return []rows{one}, err
	}
	batch := &pgx.Batch{}
	wrapped := !b.ReadOnly && !around.isEmpty()
	if wrapped {
		batch.Queue(around.begin)
		for _, set := range around.set {
			batch.Queue(set)
		}
	}
	for i := range b.Steps {
		batch.Queue(b.Steps[i].Statement.Text, args(&b.Steps[i])...)
	}
	if wrapped {
		batch.Queue("COMMIT")
	}
	res := c.SendBatch(ctx, batch)
	got, err := collectAll(res, b, wrapped, len(around.set))
	err = driver.Join(err, res.Close())
	if err != nil && wrapped && !c.IsClosed() && c.PgConn().TxStatus() != 'I' {
		_, _ = c.Exec(ctx, "ROLLBACK") // if that fails too, the connection is not used again
	}
	return got, err
}

func collectAll(res pgx.BatchResults, b *sqlstore.Batch, wrapped bool, sets int) ([]rows, error) {
	if wrapped {
		for range sets + 1 {
			if _, err := res.Exec(); err != nil {
				return nil, err
			}
		}
	}
	got := make([]rows, 0, len(b.Steps))
	for i := range b.Steps {
		r, err := res.Query()
		if err == nil {
			var one rows
			one, err = collect(r)
			got = append(got, one)
		}
		if err != nil {
			onPurpose := isCode(err, divisionByZero)
			b.Aborted, b.Missing = b.Steps[i].Required && onPurpose, b.Steps[i].LocksHead && onPurpose
			return got, err
		}
	}
	if wrapped {
		if _, err := res.Exec(); err != nil {
			return nil, err
		}
	}
	return got, nil
}

// deliver passes rows to the steps that want them.
func deliver(b *sqlstore.Batch, got []rows) error {
	for i := range got {
		if b.Steps[i].Row == nil {
			continue
		}
		for _, r := range got[i].all {
			if err := b.Steps[i].Row(row{got[i].fields, r}); err != nil {
				return err
			}
		}
	}
	return nil
}

// args returns the values of a step's parameters. Notes are bytes here: unlike a text of
// PostgreSQL they may contain a zero.
func args(s *sqlstore.Step) []any {
	all := make([]any, len(s.Statement.Params))
	for i, p := range s.Statement.Params {
		switch p {
		case sqlstore.Note:
			all[i] = []byte(s.Args.Text(p))
		case sqlstore.Names:
			all[i] = column(s.Args, func(a *sqlstore.Args) string { return a.Key() })
		case sqlstore.IDs:
			all[i] = column(s.Args, func(a *sqlstore.Args) string { return a.Text(sqlstore.ID) })
		case sqlstore.Tries:
			all[i] = column(s.Args, func(a *sqlstore.Args) int64 { return a.Int(sqlstore.Try) })
		case sqlstore.Tokens:
			all[i] = column(s.Args, func(a *sqlstore.Args) int64 { return a.Int(sqlstore.Token) })
		default:
			all[i] = s.Args.Arg(p)
		}
	}
	return all
}

// column returns one parameter of many rows.
func column[T any](a *sqlstore.Args, of func(*sqlstore.Args) T) []T {
	all := make([]T, len(a.List()))
	for i, one := range a.List() {
		all[i] = of(one)
	}
	return all
}
