// Package etcdlock keeps lines of claims in etcd, on the user's own client.
//
// It does not promise more than its cluster does. Without a majority nothing is
// granted, prolonged or given back, and holders stop at their own deadline. A cluster
// that was restored from a backup has lost every hold since, and its revisions, which
// are the tokens, continue from an earlier number unless the operator raised them. TTLs
// are whole seconds, at least two with the server's default settings; shorter ones are
// rounded up.
//
// It does promise: first come first served between all processes on the cluster, tokens
// that grow in the order of holding, one round trip to take a free name and one to give
// it back, a notification for the waiter whose turn has come and for no other, and per
// third of a TTL one keepalive for a whole session and one comparison for every 128
// names it holds or waits for. A beat notices a key that an operator deleted and a lease
// that was revoked. A key that is put again after that, by a delayed request, is another
// claim.
//
// # Keys
//
// A claim is one key under its session's lease. Its create revision is its place in line
// and its token:
//
//	<prefix>/@line/<name> TAB x<lease>.<slot>                  exclusive
//	<prefix>/@line/<name> TAB s<limit><need><lease>.<slot>     shared or counted
//
// No name contains a TAB, so the line of one name is one range of keys that no other
// name can reach into. The value describes the claim, as JSON. Slots are used again,
// because every key that ever existed slows the ranges over it until the cluster is
// compacted. Records are <prefix>/@record/<key>.
//
// # URLs
//
//	etcd://[user:password@]host[:port][,host[:port]…][/prefix]
//	etcds://…                          the same with TLS
//
// The default port is 2379, the default prefix "pawl". Parameters: prefix, in place of
// the path; tls=yes or tls=skip-verify; tls-ca, tls-cert and tls-key, which name PEM
// files, and tls-name, the name in the server's certificate if it is not the host's. A
// dialer of driver.WithDialer makes all connections.
package etcdlock
