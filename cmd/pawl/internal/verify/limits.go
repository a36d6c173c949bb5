package verify

// Limits returns what is not promised in a store of this kind: the violations to expect
// where that has happened during a run.
func Limits(store string) string {
	switch store {
	case "redis":
		return "one holder at a time across data loss, a failover or a stepped clock of the server; see docs/redis.md"
	case "redlock":
		return "one holder at a time if a majority of the servers loses data or its clock is stepped; first come, first served; see docs/redlock.md"
	case "postgres", "mysql":
		return "one holder at a time across a failover to an asynchronous replica or a stepped clock; see docs/sql.md"
	case "etcd":
		return "growing tokens after a restored backup; see docs/etcd.md"
	case "zookeeper":
		return "anything if a majority of the servers loses its data; see docs/zookeeper.md"
	case "nats":
		return "anything across a power failure unless sync_interval is always; see docs/nats.md"
	case "sqlite":
		return "anything on a network file system; see docs/sql.md"
	}
	return ""
}
