// Package sqllock ties transactions of the user's own to locks that pawl keeps in the
// same database: [Guard] makes a transaction commit as the holder of a lease or not at
// all, [OnceTx] runs a piece of work exactly once, together with the transaction that
// holds its effects.
//
// Neither covers an effect outside that database. A holder may stall past its deadline
// on any store; where the work takes effect somewhere else, the token of the lease has
// to be checked there.
//
// The engines are in the packages below: sqllock/postgres, sqllock/mysql (also MariaDB)
// and sqllock/sqlite.
package sqllock
