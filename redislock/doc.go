// Package redislock has the options of pawl's engine for Redis: one node, a master with
// replicas behind Sentinel, or a cluster; and for Valkey. Packages redislock/rueidis and
// redislock/goredis make the engine of a client library's client.
//
// The engine does not promise exclusion across a loss of data. Redis replicates after
// it has answered, and unless it is configured to write every command to disk it loses
// the last ones in a crash: a client that held a lock then may still believe so when
// another is granted it. Nor is anything promised while the server's clock is set
// forward, which ends holds early. Tokens still grow in both cases, unless data is lost
// and the clock also reads earlier than the last token.
//
// What it promises, in lease time and on a server that keeps its data: first come first
// served among all clients on one prefix; one round trip to take a free name and one to
// give it back; a waiter that is notified of its turn with the grant itself, so that it
// need not ask; and exclusion of, and by, every client of the plain recipe, SET key value
// NX PX and compare-and-delete, on the same key.
//
// See docs/redis.md for the keys, the rights a user needs, and what each fault does.
package redislock
