// Package redislock keeps lines of claims in Redis: one node, a master with
// replicas behind Sentinel, or a cluster; and in Valkey.
//
// It does not promise exclusion across a loss of data. Redis replicates after it
// has answered, and unless it is told to write every command to disk it forgets
// the last ones in a crash: whoever held then may still believe to, when another
// is granted the name. Nor does it promise anything while the server's clock is
// set forward, which ends holds early. Tokens still rise in both cases, unless
// data is lost and the clock reads earlier than the last token, together.
//
// What it does promise, in lease time and on a server that keeps its data: first
// come first served among all who use this package on one namespace; one round
// trip to take a free name and one to give it back; a waiter that is told of its
// turn with the grant itself, so that it asks nobody; and exclusion of, and by,
// every client of the plain recipe, SET key value NX PX and compare-and-delete,
// on the same key.
//
// Packages redislock/rueidis and redislock/goredis bring the client. See
// docs/redis.md for the keys, the rights a user needs, and what each fault does.
package redislock
