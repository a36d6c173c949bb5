// Package natslock keeps lines of claims in a bucket of NATS JetStream, on the user's own
// connection. It needs nats-server 2.11 or newer.
//
// It does not promise more than its servers do. With their default settings a server
// acknowledges writes before they are on disk: after a power failure a lock that was
// granted may be free, and a token may be given a second time, unless every server has
// sync_interval: always. Without a majority nothing is granted, prolonged or given back,
// and holders stop at their own deadline. Expiry is judged by the clock of the server
// that leads the bucket, so the servers' clocks have to agree. A line is one message, with
// room for some thousand claims.
//
// It does promise: the order of the line for all who are in it, tokens that grow in the
// order of holding while the servers keep what they acknowledged, also when the bucket is
// deleted and made anew, one round trip to take a free name and one to give it back, and
// a notice for the waiter whose turn has come and for no other, which brings the grant.
// JetStream domains, mirrors, buckets that throw messages away, and buckets that pawl did
// not make are refused, also if the bucket is changed later. Who writes to the bucket by
// hand makes two holders.
//
// # Keys
//
// A bucket is the stream KV_<bucket>, with pawl=1 in its metadata. Its subjects are
//
//	$KV.<bucket>.<word>.line.<name>       the line of a name, as JSON
//	$KV.<bucket>.<word>.session.<id>      a session: its claims live by the time of this message
//	$KV.<bucket>.<word>.record.<key>      a record
//
// The word is random: a bucket that was made anew has another one. A token is the time at
// which the bucket was made, in microseconds, plus the sequence of the message that
// entered the claim. Notices are sent on pawl.<bucket>.> and not stored.
//
// # URLs
//
//	nats://[user:password@]host[:port][,host[:port]…][/bucket]
//
// The default port is 4222, the default bucket "pawl". A user without a password is a
// token. Parameters: creds and nkey, which name files; replicas, of a bucket that is made;
// tls=yes or tls=skip-verify; tls-ca, tls-cert and tls-key, which name PEM files, and
// tls-name, the name in the server's certificate if it is not the host's. A dialer of
// driver.WithDialer also makes the connections to servers that the cluster names.
package natslock
