package mysql

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/sqllock"
)

// store sends flights: one statement by itself, several between START TRANSACTION
// and COMMIT in one text where the connections take that, and one by one where
// they do not.
type store struct {
	from         source
	tables       tables
	multiPrimary bool

	known   atomic.Pointer[server] // what was learnt of the server; nil: nothing yet
	retries atomic.Int64           // flights that the server refused untouched and that were sent again
}

var _ sqllock.Store = (*store)(nil)

// Run carries out a flight. One that the server undid because of what others did
// at the same time, or because it waited for a row too long, is sent again until
// ctx ends.
func (s *store) Run(ctx context.Context, f *sqllock.Flight) error {
	k, err := s.server(ctx)
	if err != nil {
		return err
	}
	for n := 0; ; n++ {
		got, err := s.send(ctx, f, k)
		switch {
		case f.Missing:
			return nil
		case err == nil || f.Vetoed:
			return s.answer(ctx, deliver(f, got))
		case refused(err) && nap(ctx, n):
			s.retries.Add(1)
		case isCode(err, lockWaitTimeout) && !f.Tries && nap(ctx, n): // it was undone, and waits on
		default:
			return s.answer(ctx, err)
		}
	}
}

// send sends a flight once. What takes and gives back a free name goes as a
// prepared statement where it can: to read it costs the server as much as to do
// it.
func (s *store) send(ctx context.Context, f *sqllock.Flight, k *server) (got []rows, err error) {
	if len(f.Steps) == 1 && !f.Beat {
		if part := k.valued(&f.Steps[0]); part != nil {
			st, err := s.from.stmt(ctx, f.Steps[0].Query, strings.Join(part.pieces, "?"))
			if err != nil {
				return nil, err
			}
			if st != nil {
				one, err := value(st.ExecContext(ctx, part.args(f.Steps[0].Args)...))
				return []rows{one}, err
			}
		}
	}
	err = s.from.with(ctx, useOf(f), func(c *sql.Conn) (err error) {
		got, err = fly(ctx, c, f, k)
		return err
	})
	return got, err
}

// Read carries out a statement that only reads.
func (s *store) Read(ctx context.Context, step *sqllock.Step) error {
	return s.Run(ctx, &sqllock.Flight{Steps: []sqllock.Step{*step}, Reads: true})
}

// fly sends a flight and takes in what comes back. Rows are handed on only when
// all is known to be done.
func fly(ctx context.Context, c *sql.Conn, f *sqllock.Flight, k *server) ([]rows, error) {
	if len(f.Steps) == 1 {
		if part := k.valued(&f.Steps[0]); part != nil {
			one, err := value(c.ExecContext(ctx, string(part.append(nil, f.Steps[0].Args))))
			return []rows{one}, err
		}
		if t := k.template(f.Steps[0].Query); len(t.parts) == 1 && !f.Steps[0].Veto {
			one, err := execute(ctx, c, string(t.append(nil, f.Steps[0].Args)))
			return []rows{one}, err
		}
	}
	if !k.multi {
		return k.walk(ctx, c, f)
	}
	got, err := k.query(ctx, c, f)
	if err != nil && !f.Reads {
		settle(ctx, c)
	}
	return got, err
}

// settle undoes what a flight left open. Its ctx may have ended; then the client
// has closed the connection, and the server undoes it by itself.
func settle(ctx context.Context, c *sql.Conn) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if _, err := c.ExecContext(ctx, rollback); err != nil {
		discard(c)
	}
}

// discard keeps a connection from being used again.
func discard(c *sql.Conn) {
	_ = c.Raw(func(any) error { return sqldriver.ErrBadConn })
}

// The beginning and end of a flight. At READ COMMITTED a read sees what is there
// when it begins, and nobody locks the gaps between rows. An end that begins the next
// transaction, as a session's completion_type may want it, would leave what follows
// uncommitted.
const (
	setLevel = "SET TRANSACTION ISOLATION LEVEL READ COMMITTED"
	begin    = "START TRANSACTION"
	commit   = "COMMIT AND NO CHAIN NO RELEASE"
	rollback = "ROLLBACK AND NO CHAIN NO RELEASE"
)

// query sends all steps as one text.
func (k *server) query(ctx context.Context, c *sql.Conn, f *sqllock.Flight) ([]rows, error) {
	var text []byte
	if !f.Reads {
		text = append(text, setLevel+";"+begin+";"...)
	}
	var yields []int // steps that have a result, in order
	for i := range f.Steps {
		t := k.template(f.Steps[i].Query)
		text = append(t.append(text, f.Steps[i].Args), ';')
		if t.yields {
			yields = append(yields, i)
		}
	}
	if f.Reads {
		text = text[:len(text)-1]
	} else {
		text = append(text, commit...)
	}
	got := make([]rows, len(f.Steps))
	r, err := c.QueryContext(ctx, string(text))
	if err != nil {
		if len(yields) == 0 {
			return nil, err
		}
		return onPurpose(f, got, yields[0], err)
	}
	defer r.Close()
	for n := 0; n < len(yields); n++ {
		if n > 0 && !r.NextResultSet() {
			return onPurpose(f, got, yields[n], r.Err())
		}
		if got[yields[n]], err = collect(r); err != nil {
			return onPurpose(f, got, yields[n], err)
		}
	}
	for r.NextResultSet() { // nothing is to come but the end, which may fail
	}
	return got, driver.Join(r.Err(), r.Close())
}

var errShort = errors.New("mysql: the server sent fewer results than statements that have one")

// onPurpose tells a flight that failed at a veto, or at a row that is missing,
// from one that failed otherwise.
func onPurpose(f *sqllock.Flight, got []rows, at int, err error) ([]rows, error) {
	if err == nil {
		return nil, errShort
	}
	meant := isCode(err, outOfRange)
	f.Vetoed, f.Missing = f.Steps[at].Veto && meant, f.Steps[at].Locks && meant
	return got, err
}

// execute runs one statement by itself.
func execute(ctx context.Context, c *sql.Conn, text string) (rows, error) {
	r, err := c.QueryContext(ctx, text)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return collect(r)
}

// value is what came with the answer to a statement, plus one; 0: nothing did.
func value(res sql.Result, err error) (rows, error) {
	if err != nil {
		return nil, err
	}
	id, err := res.LastInsertId()
	if err != nil || id == 0 {
		return nil, err
	}
	return rows{{number(id - 1)}}, nil
}

// walk sends the statements one by one, for a client that cannot send several.
func (k *server) walk(ctx context.Context, c *sql.Conn, f *sqllock.Flight) (got []rows, err error) {
	run := func(text string) error {
		_, err := c.ExecContext(ctx, text)
		return err
	}
	if !f.Reads {
		defer func() {
			if err != nil {
				settle(ctx, c)
			}
		}()
		if err = driver.Join(run(setLevel), run(begin)); err != nil {
			return nil, err
		}
	}
	got = make([]rows, len(f.Steps))
	for i := range f.Steps {
		if got[i], err = k.walkStep(ctx, c, &f.Steps[i]); err != nil {
			return onPurpose(f, got, i, err)
		}
	}
	if !f.Reads {
		err = run(commit)
	}
	return got, err
}

func (k *server) walkStep(ctx context.Context, c *sql.Conn, s *sqllock.Step) (got rows, err error) {
	for _, t := range k.template(s.Query).parts {
		text := string(t.append(nil, s.Args))
		if !t.yields {
			_, err = c.ExecContext(ctx, text)
		} else {
			got, err = execute(ctx, c, text)
		}
		if err != nil {
			return nil, err
		}
	}
	return got, nil
}

func (s *store) close() error { return s.from.close() }

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

// Retried returns how often the server undid a flight of this engine because of
// what others did at the same time, and it was sent again. It stays 0 where only
// this package works on the tables.
func (e *Engine) Retried() int64 { return e.store.retries.Load() }
