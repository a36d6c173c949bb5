package sqllock

import (
	"context"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/sqllock/internal/sqlline"
	"github.com/pawl-go/pawl/sqllock/internal/sqlstore"
)

// ErrLocked says that an open transaction holds a row for longer than the call may wait.
var ErrLocked = sqlstore.ErrLocked

// Guard ties a transaction to a lease: it returns nil only if the lease is held, and
// from then on until the transaction has ended no other claim is granted, not even
// when the lease expires. Whatever the transaction writes, it commits as the holder or
// not at all. After an error the transaction must be rolled back.
//
// The transaction must be on the database in which the lease's engine keeps its
// tables. tx is a *sql.Tx, a type that embeds it, or a transaction of the dialect's own
// client (pgx.Tx). A lease of several names is guarded for all of them, in the order
// in which they were acquired.
//
// Under READ COMMITTED Guard may come anywhere in the transaction; last is best, since
// it holds rows. Under REPEATABLE READ and SERIALIZABLE, and on SQLite, it must be the
// first statement of the transaction: Guard makes sure that the transaction does not
// read a snapshot older than the lease, and refuses it if it does.
//
// ROLLBACK TO a savepoint from before Guard ends the guard, and nothing reports it: the
// database drops the row's lock with all else that is undone. Guard again after it, or
// set savepoints only behind Guard.
//
// A lease that was passed on inside the process, released, lost or evicted is refused:
// with its own error if it has one, else with driver.ErrGone.
//
// A guarded lease is not passed on inside the process: Unlock gives it back to the
// store, which grants the name to no other claim before the transaction has ended. On MySQL,
// MariaDB and SQLite Unlock itself waits for that, so commit first. Transactions
// guarded by leases nested in one hold follow each other as well: the later guard waits
// for the earlier transaction, for a TTL at most, and then fails with ErrLocked.
func Guard(ctx context.Context, tx any, lease driver.Grant) error {
	return sqlline.Guard(ctx, tx, lease)
}
