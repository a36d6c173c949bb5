package mysql

import (
	"database/sql"
	"fmt"
	"strconv"

	"github.com/pawl-go/pawl/sqllock/internal/sqlstore"
)

// rows are the result of one step, as text, kept until the batch has ended.
type rows [][][]byte

func collect(r *sql.Rows) (got rows, err error) {
	columns, err := r.Columns()
	if err != nil {
		return nil, err
	}
	dest := make([]any, len(columns))
	for r.Next() {
		one := make([][]byte, len(columns))
		for i := range one {
			dest[i] = &one[i]
		}
		if err := r.Scan(dest...); err != nil {
			return nil, err
		}
		got = append(got, one)
	}
	return got, r.Err()
}

func number(n int64) []byte { return strconv.AppendInt(nil, n, 10) }

// deliver passes rows to the steps that want them.
func deliver(b *sqlstore.Batch, got []rows) error {
	for i := range got {
		if b.Steps[i].Row == nil {
			continue
		}
		for _, r := range got[i] {
			if err := b.Steps[i].Row(row(r)); err != nil {
				return err
			}
		}
	}
	return nil
}

// A row is one row. The statements return integers and bytes, none of them null.
type row [][]byte

func (r row) Scan(dest ...any) error {
	if len(dest) != len(r) {
		return fmt.Errorf("mysql: %d columns, %d wanted", len(r), len(dest))
	}
	for i, d := range dest {
		switch d := d.(type) {
		case *int64:
			n, err := strconv.ParseInt(string(r[i]), 10, 64)
			if err != nil {
				return fmt.Errorf("mysql: column %d: %w", i, err)
			}
			*d = n
		case *string:
			*d = string(r[i])
		case *[]byte:
			*d = append([]byte{}, r[i]...)
		default:
			return fmt.Errorf("mysql: cannot scan into %T", d)
		}
	}
	return nil
}
