package postgres

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/sqllock"
)

// store sends flights: one statement by itself, several as a batch, which
// PostgreSQL takes for one transaction. Where the connections' defaults would
// not do, the batch is put between BEGIN and COMMIT.
type store struct {
	from   source
	tables tables

	around  atomic.Pointer[envelope] // what a flight travels in; nil: not known yet
	checked atomic.Bool              // the tables were found to be of this version
	retries atomic.Int64             // flights that the server refused untouched and that were sent again

	mu     sync.Mutex // guards what follows
	beats  source     // connections of our own, made when they are first needed
	closed bool
}

var _ sqllock.Store = (*store)(nil)

func newStore(from source, t tables) *store { return &store{from: from, tables: t} }

// beatConns are how many connections are kept for beats: so many that neither one
// that is stuck on a dead connection nor one that waits for a row holds the next up.
const beatConns = 3

// Run carries out a flight. One that the server refused untouched, because it
// would have had to wait or to undo another, is sent again until ctx ends.
func (s *store) Run(ctx context.Context, f *sqllock.Flight) error {
	around, err := s.envelope(ctx)
	if err != nil {
		return err
	}
	from := s.from
	if f.Beat {
		from = s.beatSource(ctx)
	}
	for n := 0; ; n++ {
		var got []rows
		err := s.with(ctx, from, func(c *pgx.Conn) (err error) {
			got, err = fly(ctx, c, f, around)
			return err
		})
		switch {
		case f.Missing:
			return nil
		case err == nil || f.Vetoed:
			return s.classify(deliver(f, got))
		case refused(err) && nap(ctx, n):
			s.retries.Add(1)
		case f.Beat && from != s.from && notConnected(err) && ctx.Err() == nil:
			from = s.from // the user's pool may know how to log in where we do not
		default:
			return s.answer(ctx, err)
		}
	}
}

// Read carries out a statement that only reads.
func (s *store) Read(ctx context.Context, step *sqllock.Step) error {
	return s.Run(ctx, &sqllock.Flight{Steps: []sqllock.Step{*step}, Reads: true})
}

// fly sends a flight in one go and takes in what comes back. Rows are handed on
// only when all is known to be done: a server sends them before it commits.
func fly(ctx context.Context, c *pgx.Conn, f *sqllock.Flight, around *envelope) ([]rows, error) {
	if len(f.Steps) == 1 && (f.Reads || around.plain()) {
		r, err := c.Query(ctx, f.Steps[0].Query.Text, args(&f.Steps[0])...)
		if err != nil {
			return nil, err
		}
		one, err := collect(r)
		return []rows{one}, err
	}
	b := &pgx.Batch{}
	wrapped := !f.Reads && !around.plain()
	if wrapped {
		b.Queue(around.begin)
		for _, set := range around.set {
			b.Queue(set)
		}
	}
	for i := range f.Steps {
		b.Queue(f.Steps[i].Query.Text, args(&f.Steps[i])...)
	}
	if wrapped {
		b.Queue("COMMIT")
	}
	res := c.SendBatch(ctx, b)
	got, err := collectAll(res, f, wrapped, len(around.set))
	err = driver.Join(err, res.Close())
	if err != nil && wrapped && !c.IsClosed() && c.PgConn().TxStatus() != 'I' {
		_, _ = c.Exec(ctx, "ROLLBACK") // where that fails too, the connection is not used again
	}
	return got, err
}

func collectAll(res pgx.BatchResults, f *sqllock.Flight, wrapped bool, sets int) ([]rows, error) {
	if wrapped {
		for range sets + 1 {
			if _, err := res.Exec(); err != nil {
				return nil, err
			}
		}
	}
	got := make([]rows, 0, len(f.Steps))
	for i := range f.Steps {
		r, err := res.Query()
		if err == nil {
			var one rows
			one, err = collect(r)
			got = append(got, one)
		}
		if err != nil {
			onPurpose := isCode(err, divisionByZero)
			f.Vetoed, f.Missing = f.Steps[i].Veto && onPurpose, f.Steps[i].Locks && onPurpose
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

// deliver hands rows to the steps that want them.
func deliver(f *sqllock.Flight, got []rows) error {
	for i := range got {
		if f.Steps[i].Row == nil {
			continue
		}
		for _, r := range got[i].all {
			if err := f.Steps[i].Row(row{got[i].fields, r}); err != nil {
				return err
			}
		}
	}
	return nil
}

// args are the values of a step's parameters. Notes are bytes here: unlike a
// text of PostgreSQL they may hold a zero.
func args(s *sqllock.Step) []any {
	all := make([]any, len(s.Query.Params))
	for i, p := range s.Query.Params {
		switch p {
		case sqllock.Note:
			all[i] = []byte(s.Args.Text(p))
		case sqllock.Names:
			all[i] = column(s.Args, func(a *sqllock.Args) string { return a.Text(sqllock.Name) })
		case sqllock.IDs:
			all[i] = column(s.Args, func(a *sqllock.Args) string { return a.Text(sqllock.ID) })
		case sqllock.Tries:
			all[i] = column(s.Args, func(a *sqllock.Args) int64 { return a.Int(sqllock.Try) })
		case sqllock.Tokens:
			all[i] = column(s.Args, func(a *sqllock.Args) int64 { return a.Int(sqllock.Token) })
		default:
			all[i] = s.Args.Arg(p)
		}
	}
	return all
}

// column is one parameter of many claims.
func column[T any](a *sqllock.Args, of func(*sqllock.Args) T) []T {
	all := make([]T, len(a.List()))
	for i, one := range a.List() {
		all[i] = of(one)
	}
	return all
}

// beatSource returns connections for beats, or those of the user while there can be
// none.
func (s *store) beatSource(ctx context.Context) source {
	if s.keep(ctx) != nil {
		return s.from
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.beats == nil {
		return s.from
	}
	return s.beats
}

// keep sees to it that there are connections for beats.
func (s *store) keep(ctx context.Context) error {
	s.mu.Lock()
	done := s.beats != nil || s.closed
	s.mu.Unlock()
	if done {
		return nil
	}
	beats, err := s.from.keep(ctx) // may wait
	if err != nil {
		return err
	}
	s.mu.Lock()
	if s.beats == nil && !s.closed {
		s.beats, beats = beats, nil
	}
	s.mu.Unlock()
	if beats != nil { // somebody else was faster
		beats.close()
	}
	return nil
}

type heldKey struct{ *store }

// hold runs fn on one connection of the user's.
func (s *store) hold(ctx context.Context, fn func(context.Context)) error {
	return s.answer(ctx, s.from.with(ctx, func(c *pgx.Conn) error {
		fn(context.WithValue(ctx, heldKey{s}, c))
		return nil
	}))
}

// with runs fn on the connection that is held under ctx, if it still serves, or on one
// of from.
func (s *store) with(ctx context.Context, from source, fn func(*pgx.Conn) error) error {
	if c, ok := ctx.Value(heldKey{s}).(*pgx.Conn); ok && !c.IsClosed() && c.PgConn().TxStatus() == 'I' {
		defer spoilt(ctx, c)
		return fn(c)
	}
	return from.with(ctx, fn)
}

func (s *store) close() error {
	s.mu.Lock()
	beats := s.beats
	s.beats, s.closed = nil, true
	s.mu.Unlock()
	if beats != nil {
		beats.close()
	}
	s.from.close()
	return nil
}

// nap sleeps a little, longer by and by and never twice alike, and reports
// whether ctx let it.
func nap(ctx context.Context, n int) bool {
	most := min(time.Duration(n+1)*time.Millisecond, 20*time.Millisecond)
	t := time.NewTimer(rand.N(most) + 100*time.Microsecond)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func isCode(err error, codes ...string) bool {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	if !ok {
		return false
	}
	for _, c := range codes {
		if pg.Code == c {
			return true
		}
	}
	return false
}

// notConnected reports that no connection was had.
func notConnected(err error) bool {
	_, ok := errors.AsType[*connectError](err)
	return ok
}

// Retried returns how often the server undid a flight of this engine because of
// what others did at the same time, and it was sent again. It stays 0 where only
// this package works on the tables, and the connections' isolation level is READ
// COMMITTED.
func (e *Engine) Retried() int64 { return e.store.retries.Load() }
