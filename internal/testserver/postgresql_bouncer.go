package testserver

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// PgBouncer starts a PgBouncer in front of a PostgreSQL. mode is "session", or
// "transaction", the usual one, in which session state is lost or belongs to
// another client. It has the server's users and databases, and no password.
func PgBouncer(t testing.TB, server *Server, mode string) *Server {
	t.Helper()
	return Start(t, Spec{
		Name:    "pgbouncer",
		Package: "pgbouncer",
		Binary:  File{"pgbouncer"},
		Users:   []string{"postgres", "nobody"},
		Prepare: func(_ context.Context, s *Server) error {
			const ini = `[databases]
* = host=127.0.0.1 port=%d user=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = any
pool_mode = %s
max_client_conn = 1000
default_pool_size = 50
`
			return os.WriteFile(filepath.Join(s.Dir(), "pgbouncer.ini"), fmt.Appendf(nil, ini, server.Port(), s.Port(), mode), 0o644)
		},
		Args: func(s *Server) []string { return []string{filepath.Join(s.Dir(), "pgbouncer.ini")} },
	})
}
