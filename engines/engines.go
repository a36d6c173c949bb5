// Package engines imports every engine for its side effect, so that pawl.Open knows
// all schemes. A program that uses only one store imports that engine instead, and
// does not link the others.
package engines

import (
	_ "github.com/pawl-go/pawl/etcdlock"          // etcd: etcds:
	_ "github.com/pawl-go/pawl/memlock"           // mem:
	_ "github.com/pawl-go/pawl/natslock"          // nats:
	_ "github.com/pawl-go/pawl/redislock/rueidis" // redis: rediss: redis-sentinel: redis-cluster:
	_ "github.com/pawl-go/pawl/redlock"           // redlock:
	_ "github.com/pawl-go/pawl/sqllock/mysql"     // mysql:
	_ "github.com/pawl-go/pawl/sqllock/postgres"  // postgres: postgresql:
	_ "github.com/pawl-go/pawl/sqllock/sqlite"    // sqlite:
	_ "github.com/pawl-go/pawl/zklock"            // zk:
)
