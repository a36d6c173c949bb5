// Package sqllock keeps lines of claims in the tables of a database.
//
// It does not promise that a holder which was told it holds still holds when
// its work takes effect: a process may stall past its deadline on any store.
// The token on every grant, checked where the work has its effect, is what
// carries an application past that. Nor does it promise that a waiter is woken
// by the database: that depends on the dialect, and every waiter also looks
// when the first claim ahead of it expires.
//
// The package holds what all databases share: the statements in sql/, the order
// in which they travel, and the engine that sends them. What differs is a
// [Dialect]: packages sqllock/sqlite and its siblings each bring one, with its
// client.
//
// # Rows
//
// A name has a head row with the highest token given out on it and, inline, the
// one exclusive holder, so that taking and giving back a free name is one
// statement on one row each. Whoever waits, and whoever shares the name, is a
// row in the claim table with its token as its place: the line is first come
// first served, so a token minted on arrival is in the order of holding.
// used and waiting in the head row count those rows, and keep the one-statement
// path away from a name that has any.
//
// # Flights
//
// Everything else is a [Flight]: end what has expired, add or end a claim, let
// in whoever fits now, count, and read how the caller stands. No step depends
// on what the client saw of an earlier one, so that a dialect may send them all
// at once.
package sqllock
