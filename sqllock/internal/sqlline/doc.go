// Package sqlline is the upper floor of the SQL engines: lines of claims in the tables
// of a database. It has what all databases share, the statements in sql/, the order in
// which they run and the engine that runs them. What differs is a [Dialect]: the
// packages sqllock/postgres, sqllock/mysql and sqllock/sqlite each bring one, on their
// client.
//
// Waiters are not always woken by the database: that depends on the dialect. Each of
// them also looks when the first claim ahead of it expires.
//
// # Rows
//
// A name has a head row with the highest token given out on it and, inline, its one
// exclusive holder (columns x_*), so that taking and releasing a free name is one
// statement on one row each. Waiting claims and shared holds are rows of the claim
// table, ordered by token: the line is first come first served, so a token minted on
// arrival is in the order of holding. used and waiting in the head row count those
// rows, and keep the one-statement path away from a name that has any.
//
// Statements whose name ends in _hold are about the exclusive holder in the head row,
// those that end in _claim about rows of the claim table.
//
// # Batches
//
// Everything else is a batch: end what has expired, add or end a claim, grant what fits
// now, recount, and read the standing of the caller's claim. No step depends on what
// the client read in an earlier one, so that a dialect may send them all at once.
package sqlline
