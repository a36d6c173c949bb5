// Package etcdlock keeps lines of claims in etcd, on the user's own client.
//
// It does not promise more than its cluster does. Without a majority nothing is
// granted, prolonged or given back, and holders end by their own deadline. A
// cluster that was restored from a backup has forgotten every hold since, and
// counts its revisions, which are the tokens, from an earlier number again
// unless it was told to skip ahead. TTLs are whole seconds, two at least with
// the server's usual settings; shorter ones are rounded up.
//
// What it does promise: first come first served between all processes on the
// cluster, tokens that grow in the order of holding, one round trip to take a
// free name and one to give it back, a waiter that is told of its turn and
// nobody else with it, and per third of a TTL one keepalive for a whole session and
// one question for every 128 names it holds or waits for. A key that an operator
// deletes, or a lease that is revoked, is noticed at the next beat. A key that is put
// again after that, by a request that was held up on its way, is another claim.
//
// # Keys
//
// A claim is one key under its session's lease. Its create revision is its place
// in line and its token:
//
//	<prefix>/@line/<name> TAB x<lease>.<slot>                  exclusive
//	<prefix>/@line/<name> TAB s<limit><need><lease>.<slot>     shared or counted
//
// No name has a TAB, so that the line of one name is one range of keys that no
// other name can reach into. The value says who it is, as JSON. Slots are used
// again, because every key that ever was slows the ranges over it until the
// cluster is compacted. Records are <prefix>/@record/<key>.
//
// # URLs
//
//	etcd://[user:password@]host[:port][,host[:port]…][/prefix]
//	etcds://…                          the same with TLS
//
// The port is 2379 unless said otherwise, the prefix "pawl". Parameters: prefix,
// in place of the path; tls=on or tls=skip-verify; ca, cert and key, which name
// files in PEM.
package etcdlock
