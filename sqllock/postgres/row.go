package postgres

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// rows are the result of one step, kept until the batch has ended.
type rows struct {
	fields []pgconn.FieldDescription
	all    [][][]byte
}

func collect(r pgx.Rows) (rows, error) {
	defer r.Close()
	var got rows
	for r.Next() {
		if got.fields == nil {
			got.fields = append(got.fields, r.FieldDescriptions()...)
		}
		raw := r.RawValues()
		one, size := make([][]byte, len(raw)), 0
		for _, v := range raw {
			size += len(v)
		}
		block := make([]byte, 0, size) // the connection reuses the memory of its values for the next row
		for i, v := range raw {
			from := len(block)
			block = append(block, v...)
			one[i] = block[from:len(block):len(block)]
		}
		got.all = append(got.all, one)
	}
	r.Close()
	return got, r.Err()
}

// A row is one row. The statements return integers, texts and bytes, none of them null,
// in either format of the protocol: which one depends on the user's pool.
type row struct {
	fields []pgconn.FieldDescription
	values [][]byte
}

func (r row) Scan(dest ...any) error {
	if len(dest) != len(r.values) {
		return fmt.Errorf("postgres: %d columns, %d wanted", len(r.values), len(dest))
	}
	for i, d := range dest {
		var err error
		switch d := d.(type) {
		case *int64:
			*d, err = integer(r.values[i], r.fields[i].Format)
		case *string:
			var b []byte
			b, err = r.bytes(i)
			*d = string(b)
		case *[]byte:
			*d, err = r.bytes(i)
		default:
			err = fmt.Errorf("cannot scan into %T", d)
		}
		if err != nil {
			return fmt.Errorf("postgres: column %s: %w", r.fields[i].Name, err)
		}
	}
	return nil
}

func integer(b []byte, format int16) (int64, error) {
	if format == pgx.TextFormatCode {
		return strconv.ParseInt(string(b), 10, 64)
	}
	switch len(b) {
	case 8:
		return int64(binary.BigEndian.Uint64(b)), nil
	case 4:
		return int64(int32(binary.BigEndian.Uint32(b))), nil
	case 2:
		return int64(int16(binary.BigEndian.Uint16(b))), nil
	}
	return 0, fmt.Errorf("an integer of %d bytes", len(b))
}

const bytea = 17 // the OID of the type

func (r row) bytes(i int) ([]byte, error) {
	b := r.values[i]
	if r.fields[i].DataTypeOID == bytea && r.fields[i].Format == pgx.TextFormatCode {
		if digits, ok := strings.CutPrefix(string(b), `\x`); ok {
			return hex.DecodeString(digits)
		}
		return unescape(b)
	}
	return append([]byte{}, b...), nil
}

// unescape reads bytes in the format of a server whose bytea_output is escape: a
// backslash is doubled, and a byte that cannot be printed is a backslash and three octal
// digits.
func unescape(b []byte) ([]byte, error) {
	out := make([]byte, 0, len(b))
	for i := 0; i < len(b); i++ {
		switch {
		case b[i] != '\\':
			out = append(out, b[i])
		case i+1 < len(b) && b[i+1] == '\\':
			out = append(out, '\\')
			i++
		case i+3 < len(b):
			n, err := strconv.ParseUint(string(b[i+1:i+4]), 8, 8)
			if err != nil {
				return nil, err
			}
			out = append(out, byte(n))
			i += 3
		default:
			return nil, errors.New("bytes that end within an escape")
		}
	}
	return out, nil
}
