package sqlstore

import (
	"fmt"
	"strconv"
)

// Rows are the result of one step, kept until the batch is known to be committed: a
// server sends them before. A column is an int64, or a []byte that is used for nothing else.
type Rows [][]any

// deliver passes the rows of each step to it.
func (b *Batch) deliver(got []Rows) error {
	for i := range got {
		if b.Steps[i].Row == nil {
			continue
		}
		for _, r := range got[i] {
			if err := b.Steps[i].Row(keptRow(r)); err != nil {
				return err
			}
		}
	}
	return nil
}

// A keptRow is one of Rows.
type keptRow []any

func (r keptRow) Scan(dest ...any) error {
	if len(dest) != len(r) {
		return fmt.Errorf("%d columns, %d wanted", len(r), len(dest))
	}
	for i, d := range dest {
		if err := scan(d, r[i]); err != nil {
			return fmt.Errorf("column %d: %w", i, err)
		}
	}
	return nil
}

func scan(dest, value any) (err error) {
	n, isInt := value.(int64)
	b, _ := value.([]byte)
	switch d := dest.(type) {
	case *int64:
		if *d = n; !isInt { // it was sent as text
			*d, err = strconv.ParseInt(string(b), 10, 64)
		}
	case *string:
		*d = string(b)
	case *[]byte:
		*d = b
	default:
		err = fmt.Errorf("cannot scan into %T", d)
	}
	return err
}
