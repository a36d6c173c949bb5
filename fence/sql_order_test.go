package fence_test

import (
	"context"
	"database/sql"
	"strings"
	"testing"

	"github.com/pawl-go/pawl/fence"
)

// A rival has the row made, and its own smaller token in it, between our statements.
type rival struct {
	*sql.Tx
	table string
	came  bool
}

func (r *rival) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	if !r.came {
		r.came = true
		if _, err := r.ExecContext(ctx, "INSERT INTO "+r.table+" VALUES ('state', 5, 0)"); err != nil {
			panic(err)
		}
	}
	return r.Tx.QueryRowContext(ctx, query, args...)
}

func TestAMarkIsRaisedThoughARivalMadeTheRowMeanwhile(t *testing.T) {
	t.Parallel()
	r := newInSQLite(t).(*inSQL)
	table := strings.Replace(r.table, "state", "marks", 1)
	if err := r.in(func(tx *sql.Tx) error {
		return r.marks.Begin(t.Context(), &rival{Tx: tx, table: table}, "state", fence.Write, 9)
	}); err != nil {
		t.Fatal(err)
	}
	var writer int64
	if err := r.db.QueryRow("SELECT writer FROM " + table).Scan(&writer); err != nil || writer != 9 {
		t.Errorf("the mark is %d, not 9 (%v)", writer, err)
	}
}
