package mysql

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/go-sql-driver/mysql"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/sqllock/internal/sqlstore"
)

// Error numbers of MySQL and MariaDB.
const (
	changedSinceRead = 1020 // MariaDB's snapshot isolation
	lockWaitTimeout  = 1205
	deadlock         = 1213
	outOfRange       = 1690 // require_claim or lock_head failed on purpose
	noSuchTable      = 1146
	noSuchColumn     = 1054
	wrongBinlog      = 1665
	syntax           = 1064
	inTransaction    = 1568 // of SET TRANSACTION inside one
	readOnlySession  = 1792 // its transactions only read
	twoRows          = 1242 // the macro primary failed on purpose: the server is read-only
)

var (
	readOnly = []uint16{1290, 1836, 3100, twoRows}
	denied   = []uint16{1044, 1045, 1049, 1142, 1143, 1227, 1370, 1410, 1698, 1820}
	// The statement itself was wrong. Any other error may come from a server that is
	// overloaded or shutting down.
	faults = []uint16{1048, 1062, 1063, 1264, 1406, syntax, wrongBinlog, outOfRange}
)

// errReadOnlySession says what is wrong with the connections, not with the server: it does
// not pass.
var errReadOnlySession = fmt.Errorf("%w: mysql: transaction_read_only is on for these connections, and locks are written: set it off for them", driver.ErrDenied)

func isCode(err error, codes ...uint16) bool {
	e, ok := errors.AsType[*mysql.MySQLError](err)
	return ok && slices.Contains(codes, e.Number)
}

// isRefused reports that the server rolled a batch back because of concurrent
// transactions: it may be sent again.
func isRefused(err error) bool { return isCode(err, deadlock, changedSinceRead) }

// withCtxErr is classify for a call whose ctx may have ended.
func (s *store) withCtxErr(ctx context.Context, err error) error {
	return sqlstore.WithCtxErr(ctx, s.classify(err))
}

// classify wraps errors in the driver's sentinels where one fits, and says what the
// operator can do.
func (s *store) classify(err error) error {
	_, answered := errors.AsType[*mysql.MySQLError](err)
	switch {
	case err == nil, errors.Is(err, driver.ErrUnsupported), errors.Is(err, driver.ErrDenied), errors.Is(err, driver.ErrUnreachable):
		return err
	case !answered: // there was no connection, or it broke
		return fmt.Errorf("%w: %w", driver.ErrUnreachable, err)
	case isCode(err, noSuchTable):
		return fmt.Errorf("mysql: the tables %s are not there, or not of this version: run pawl migrate: %w", s.tables.shown, err)
	case isCode(err, noSuchColumn):
		return fmt.Errorf("mysql: a table at the name of one of %s is not pawl's: choose another table_prefix: %w", s.tables.shown, err)
	case isCode(err, wrongBinlog):
		return fmt.Errorf("%w: mysql: binlog_format STATEMENT does not go with READ COMMITTED, which locks need: set MIXED or ROW: %w", driver.ErrUnsupported, err)
	case isCode(err, readOnlySession):
		return fmt.Errorf("%w: %w", errReadOnlySession, err)
	case isCode(err, readOnly...):
		return fmt.Errorf("%w: the server takes no writes: it is a replica, or was a primary until now: %w", driver.ErrUnreachable, err)
	case isCode(err, denied...):
		return fmt.Errorf("%w: %w", driver.ErrDenied, err)
	case isCode(err, inTransaction):
		return errInTransaction
	case isCode(err, lockWaitTimeout):
		return fmt.Errorf("%w: %w: %w", driver.ErrUnreachable, sqlstore.ErrLocked, err)
	case isCode(err, faults...):
		return err
	}
	return fmt.Errorf("%w: %w", driver.ErrUnreachable, err)
}
