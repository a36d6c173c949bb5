package testserver

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"testing"
)

// MariaDB starts a MariaDB with the user "root", no password, and no database of
// its own. Data survives Kill and Restart, though not a power cut. args are added
// to its command line, for example "--max-connections=10".
func MariaDB(t testing.TB, args ...string) *Server {
	t.Helper()
	return Start(t, mariaDB(args...))
}

func mariaDB(args ...string) Spec {
	return Spec{
		Name:    "mariadb",
		Package: "mariadb-server",
		Binary:  File{"mariadbd"},
		Beside:  []File{{"mariadb-install-db"}},
		Users:   []string{"mysql", "nobody"},
		Prepare: func(ctx context.Context, s *Server) error {
			return s.Run(ctx, s.Beside(0),
				"--no-defaults",
				"--datadir="+filepath.Join(s.Dir(), "data"),
				"--auth-root-authentication-method=normal",
				"--skip-test-db",
				"--skip-name-resolve")
		},
		Args: func(s *Server) []string {
			return append([]string{
				"--no-defaults", // must come first
				"--bind-address=127.0.0.1",
				"--port=" + strconv.Itoa(s.Port()),
				"--datadir=" + filepath.Join(s.Dir(), "data"),
				"--socket=" + filepath.Join(s.Dir(), "socket"),
				"--pid-file=" + filepath.Join(s.Dir(), "pid"),
				"--skip-name-resolve",
				"--innodb-flush-log-at-trx-commit=2", // makes a difference only if the whole machine crashes
			}, args...)
		},
		Ready: mariaDBReady,
	}
}

// mariaDBReady reads the greeting: a server that cannot serve sends an error
// instead.
func mariaDBReady(ctx context.Context, s *Server) error {
	conn, err := dial(ctx, s)
	if err != nil {
		return err
	}
	defer conn.Close()
	const protocol = 10
	var head [5]byte // length, number, and the first byte of the packet
	if _, err := io.ReadFull(conn, head[:]); err != nil {
		return err
	}
	if head[4] != protocol {
		return fmt.Errorf("greeted with protocol %d", head[4])
	}
	return nil
}
