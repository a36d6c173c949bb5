package sqlite

import (
	"fmt"

	"github.com/ncruces/go-sqlite3"

	"github.com/pawl-go/pawl/sqllock/internal/sqlstore"
)

// A moment is a reading of the clocks, the same for all statements of one batch.
type moment struct{ now, wall int64 }

func bind(stmt *sqlite3.Stmt, s *sqlstore.Step, at moment) error {
	for i, p := range s.Statement.Params {
		var err error
		switch {
		case p == sqlstore.Now:
			err = stmt.BindInt64(i+1, at.now)
		case p == sqlstore.Wall:
			err = stmt.BindInt64(i+1, at.wall)
		case p.IsText():
			err = stmt.BindText(i+1, s.Args.Text[p])
		case p.IsInt():
			err = stmt.BindInt64(i+1, s.Args.Num[p])
		default:
			err = stmt.BindBlob(i+1, s.Args.Value)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// A row is the current row of a statement.
type row struct{ stmt *sqlite3.Stmt }

func (r row) Scan(dest ...any) error {
	for i, d := range dest {
		switch d := d.(type) {
		case *int64:
			*d = r.stmt.ColumnInt64(i)
		case *string:
			*d = r.stmt.ColumnText(i)
		case *[]byte:
			*d = r.stmt.ColumnBlob(i, []byte{})
		default:
			return fmt.Errorf("sqlite: cannot scan into %T", d)
		}
	}
	return nil
}
