package mysql

import (
	"context"
	"database/sql"

	"github.com/pawl-go/pawl/sqllock/internal/sqlstore"
)

// query runs one statement that returns rows.
func query(ctx context.Context, c *sql.Conn, text string) (sqlstore.Rows, error) {
	r, err := c.QueryContext(ctx, text)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return collect(r)
}

// collect reads the rows of one statement, whose columns come as text.
func collect(r *sql.Rows) (got sqlstore.Rows, err error) {
	columns, err := r.Columns()
	if err != nil {
		return nil, err
	}
	texts, dest := make([][]byte, len(columns)), make([]any, len(columns))
	for i := range texts {
		dest[i] = &texts[i]
	}
	for r.Next() {
		if err := r.Scan(dest...); err != nil {
			return nil, err
		}
		one := make([]any, len(columns))
		for i, text := range texts {
			one[i] = text
		}
		got = append(got, one)
	}
	return got, r.Err()
}

// lastInsertID returns the value that a statement put into LAST_INSERT_ID, plus one; 0 is
// no row.
func lastInsertID(res sql.Result, err error) (sqlstore.Rows, error) {
	if err != nil {
		return nil, err
	}
	id, err := res.LastInsertId()
	if err != nil || id == 0 {
		return nil, err
	}
	return sqlstore.Rows{{id - 1}}, nil
}
