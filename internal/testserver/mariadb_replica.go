package testserver

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
)

// MariaDBReplica starts a MariaDB, as [MariaDB] does, that follows the one at primary
// asynchronously and takes no writes. The primary must have been started with
// "--log-bin" and "--server-id=1". The address may be that of a proxy, so that a test
// can cut the link. "STOP SLAVE" and "SET GLOBAL read_only = OFF" make it a primary.
// Further arguments are for its command line.
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
