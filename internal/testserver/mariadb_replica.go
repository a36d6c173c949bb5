package testserver

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
)

// MariaDBReplica starts a MariaDB, like [MariaDB], that replicates from primary
// asynchronously and is read-only. The primary must run with "--log-bin" and
// "--server-id=1". Its address may be that of a proxy, so that a test can cut the
// connection. "STOP SLAVE" and "SET GLOBAL read_only = OFF" make the replica a
// primary. args are added to its command line.
func MariaDBReplica(t testing.TB, primary string, args ...string) *Server {
	t.Helper()
	spec := mariaDB(args...)
	spec.Name = "mariadb-replica"
	file := func(s *Server) string { return filepath.Join(s.Dir(), "follow.sql") }
	base, settings := spec.Prepare, spec.Args
	spec.Prepare = func(ctx context.Context, s *Server) error {
		host, port, err := net.SplitHostPort(primary)
		if err != nil {
			return err
		}
		text := fmt.Sprintf("CHANGE MASTER TO MASTER_HOST='%s', MASTER_PORT=%s, MASTER_USER='root', MASTER_USE_GTID=slave_pos;\nSTART SLAVE;\n", host, port)
		if err := os.WriteFile(file(s), []byte(text), 0o644); err != nil {
			return err
		}
		return base(ctx, s)
	}
	spec.Args = func(s *Server) []string {
		return append(settings(s), "--server-id=2", "--read-only", "--init-file="+file(s))
	}
	return Start(t, spec)
}
