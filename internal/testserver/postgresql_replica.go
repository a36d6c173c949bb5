package testserver

import (
	"context"
	"net"
	"path/filepath"
	"testing"
)

// PostgreSQLReplica starts a PostgreSQL, like [PostgreSQL], that replicates from
// primary asynchronously. The address may be that of a proxy, so that a test can
// cut the connection. "SELECT pg_promote()" makes it a primary. args are added to
// its command line.
func PostgreSQLReplica(t testing.TB, primary string, args ...string) *Server {
	t.Helper()
	spec := postgreSQL(args...)
	spec.Name = "postgresql-replica"
	spec.Prepare = func(ctx context.Context, s *Server) error {
		host, port, err := net.SplitHostPort(primary)
		if err != nil {
			return err
		}
		program, err := filepath.EvalSymlinks(s.Binary())
		if err != nil {
			return err
		}
		return s.Run(ctx, filepath.Join(filepath.Dir(program), "pg_basebackup"),
			"--pgdata", filepath.Join(s.Dir(), "data"),
			"--host", host,
			"--port", port,
			"--username", "postgres",
			"--write-recovery-conf",
			"--checkpoint", "fast",
			"--no-sync")
	}
	return Start(t, spec)
}
