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
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/pawl-go/pawl/sqllock/internal/sqlstore"
)

// collect reads the rows of one statement.
func collect(r pgx.Rows) (got sqlstore.Rows, err error) {
	defer r.Close()
	for r.Next() {
		raw := r.RawValues()
		one := make([]any, len(raw))
		for i, f := range r.FieldDescriptions() {
			if one[i], err = value(f, raw[i]); err != nil {
				return nil, fmt.Errorf("postgres: column %s: %w", f.Name, err)
			}
		}
		got = append(got, one)
	}
	r.Close()
	return got, r.Err()
}

// value returns a copy of a column: the connection reuses the memory for the next row. The
// statements return integers, texts and bytes, none of them null, in either format of the
// protocol: which one depends on the user's pool.
func value(f pgconn.FieldDescription, raw []byte) (any, error) {
	inText := f.Format == pgx.TextFormatCode
	switch {
	case f.DataTypeOID == pgtype.ByteaOID && inText:
		if digits, ok := strings.CutPrefix(string(raw), `\x`); ok {
			return hex.DecodeString(digits)
		}
		return unescape(raw)
	case f.DataTypeOID == pgtype.Int8OID && !inText && len(raw) == 8:
		return int64(binary.BigEndian.Uint64(raw)), nil
	case f.DataTypeOID == pgtype.Int4OID && !inText && len(raw) == 4:
		return int64(int32(binary.BigEndian.Uint32(raw))), nil
	}
	return append([]byte{}, raw...), nil
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
