// Package etcdstore is a connection to an etcd cluster: calls, leases and watches.
//
// It knows keys, ranges, revisions and leases, and nothing about what they are
// used for. It promises that every call returns soon after its ctx has ended, that
// a call whose outcome is unknown is never repeated (only reads are), that errors
// are wrapped in the sentinels of package driver, and that a watch which no longer
// delivers is noticed: [Watch.Verify] asks the server for a response over the same
// stream. [Store.Close] ends and awaits every goroutine.
//
// It does not promise that a watch delivers every event. A watch has no start
// revision, so its owner reads the keys after the watch has started.
package etcdstore
