package sqlite

import "fmt"

// A network file system does not keep the promises SQLite needs of file locks
// and shared memory: files on one have been seen corrupted within minutes.
type networkError struct{ path, kind string }

func (e *networkError) Error() string {
	return fmt.Sprintf("sqlite: %s is on %s, where file locks between machines cannot be trusted: "+
		"use a local disk, or a server (redis, etcd, postgres) for locks between machines", e.path, e.kind)
}
