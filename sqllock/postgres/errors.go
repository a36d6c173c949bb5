package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/sqllock/internal/sqlstore"
)

// Error codes of PostgreSQL.
const (
	divisionByZero      = "22012" // require_claim or lock_head failed on purpose
	serializationFailed = "40001"
	deadlockDetected    = "40P01"
	lockNotAvailable    = "55P03"
	readOnly            = "25006"
	undefinedTable      = "42P01"
	undefinedSchema     = "3F000"
	undefinedColumn     = "42703"
	undefinedFunction   = "42883" // also an operator between types that are not ours
	typeMismatch        = "42804"
	insufficientRights  = "42501"
	noSuchDatabase      = "3D000"
	untranslatable      = "22P05"
)

// isRefused reports that the server rolled a batch back because of concurrent
// transactions: it may be sent again.
func isRefused(err error) bool {
	return isCode(err, serializationFailed, deadlockDetected, lockNotAvailable)
}

// withCtxErr is classify for a call whose ctx may have ended.
func (s *store) withCtxErr(ctx context.Context, err error) error {
	return sqlstore.WithCtxErr(ctx, s.classify(err))
}

// classify wraps errors in the driver's sentinels where one fits, and says what the
// operator can do.
func (s *store) classify(err error) error {
	if c, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		err = fmt.Errorf("connect: %w", c.Unwrap()) // it carries the configuration, which has the password
	}
	pg, ok := errors.AsType[*pgconn.PgError](err)
	switch {
	case err == nil, errors.Is(err, driver.ErrUnsupported), errors.Is(err, driver.ErrDenied), errors.Is(err, driver.ErrUnreachable):
		return err
	case !ok: // the server did not send it: there was no connection, or it broke
		return fmt.Errorf("%w: %w", driver.ErrUnreachable, err)
	case isCode(err, undefinedSchema): // met only by migrate
		return fmt.Errorf("postgres: there is no schema for the tables %s, and migrate makes none: %s: %w",
			s.tables.shown, s.tables.missingSchema(), err)
	case isCode(err, undefinedTable):
		return fmt.Errorf("postgres: the tables %s are not there, or not of this version: run pawl migrate: %w", s.tables.shown, err)
	case isCode(err, undefinedColumn, undefinedFunction, typeMismatch):
		return fmt.Errorf("postgres: a table at the name of one of %s is not pawl's: choose another table_prefix: %w", s.tables.shown, err)
	case isCode(err, readOnly):
		return fmt.Errorf("%w: the server takes no writes: it is a read replica, was a primary until now, or default_transaction_read_only is on: %w", driver.ErrUnreachable, err)
	case isCode(err, insufficientRights, noSuchDatabase), strings.HasPrefix(pg.Code, "28"):
		return fmt.Errorf("%w: %w", driver.ErrDenied, err)
	case isCode(err, untranslatable):
		return fmt.Errorf("%w: postgres: the encoding of the database does not have all characters of the name: use a database whose encoding is UTF8: %w",
			driver.ErrUnsupported, err)
	case isCode(err, lockNotAvailable):
		return fmt.Errorf("%w: an open transaction holds the row: %w", driver.ErrUnreachable, err)
	case isRefused(err), strings.HasPrefix(pg.Code, "08"), strings.HasPrefix(pg.Code, "53"), strings.HasPrefix(pg.Code, "57"), strings.HasPrefix(pg.Code, "58"):
		return fmt.Errorf("%w: %w", driver.ErrUnreachable, err)
	}
	return err
}

func isCode(err error, codes ...string) bool {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	return ok && slices.Contains(codes, pg.Code)
}

// isNotConnected reports that there was no connection.
func isNotConnected(err error) bool {
	_, ok := errors.AsType[*sqlstore.ConnectError](err)
	return ok
}
