package sqlline

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/sqllock/internal/sqlstore"
)

// separator is between prefix and name: a control character, which no name has, so that
// "team"+"2x" is not "team2"+"x".
const separator = "\x1f"

// key returns a name as it is stored.
func (e *Engine) key(name string) string {
	if e.prefix == "" {
		return name
	}
	return e.prefix + separator + name
}

// name returns the user's name of a stored one.
func (e *Engine) name(key string) string { return strings.TrimPrefix(key, e.key("")) }

// named returns the arguments of a statement about one name.
func (e *Engine) named(name string) *sqlstore.Args { return sqlstore.Named(e.key(name)) }

// owned returns the arguments of a statement about the rows of one process.
func owned(owner string) *sqlstore.Args {
	a := &sqlstore.Args{}
	a.Text[sqlstore.Owner] = owner
	return a
}

// claimArgs returns the arguments of statements about one claim.
func (e *Engine) claimArgs(c driver.Claim) *sqlstore.Args {
	a := e.named(c.Name)
	a.Text[sqlstore.ID] = c.ID
	a.Text[sqlstore.Owner] = e.d.Owner
	a.Text[sqlstore.Note] = c.Note
	a.Num[sqlstore.Try] = int64(c.Try)
	a.Num[sqlstore.Need] = int64(c.Need)
	a.Num[sqlstore.Limit] = int64(c.Limit)
	if c.Queue {
		a.Num[sqlstore.Queue] = 1
	}
	return a
}

// read runs a statement that only reads.
func (e *Engine) read(ctx context.Context, q *sqlstore.Statement, a *sqlstore.Args, row func(sqlstore.Row) error) error {
	return e.d.Store.Run(ctx, &sqlstore.Batch{ReadOnly: true, Steps: []sqlstore.Step{{Statement: q, Args: a, Row: row}}})
}

// readTexts runs a statement that returns one text a row.
func (e *Engine) readTexts(ctx context.Context, q *sqlstore.Statement, a *sqlstore.Args) (texts []string, err error) {
	err = e.read(ctx, q, a, func(r sqlstore.Row) error {
		var s string
		err := r.Scan(&s)
		texts = append(texts, s)
		return err
	})
	return texts, err
}

// readTimeout bounds a read whose caller may have set no deadline. A database that was
// cut off silently does not answer until TCP gives up, which takes minutes.
const readTimeout = 10 * time.Second

// readBounded reads with readTimeout.
func (e *Engine) readBounded(ctx context.Context, q *sqlstore.Statement, a *sqlstore.Args, row func(sqlstore.Row) error) error {
	call, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	err := e.read(call, q, a, row)
	if err != nil && call.Err() != nil && ctx.Err() == nil {
		err = fmt.Errorf("%w: no answer for %v", driver.ErrUnreachable, readTimeout)
	}
	return err
}

// departures reads the number of departures; it is 0 for a name without a head row.
func (e *Engine) departures(ctx context.Context, name string) (uint64, error) {
	var n int64
	err := e.read(ctx, e.q.Departures, e.named(name), func(r sqlstore.Row) error { return r.Scan(&n) })
	return uint64(n), err
}

func micros(n int64) time.Duration { return time.Duration(n) * time.Microsecond }
