package testserver

import (
	"context"
	"path/filepath"
	"strconv"
	"testing"
)

// MySQL starts a MySQL from Debian unstable with the user "root", no password, and
// no database of its own. Data survives Kill and Restart, though not a power cut.
// args are added to its command line, for example "--max-connections=10". See
// [DebianUnstable] for where it comes from.
func MySQL(t testing.TB, args ...string) *Server {
	t.Helper()
	return Start(t, mySQL(DebianUnstable(t, "mysql-server-core"), args...))
}

func mySQL(root DebianRoot, args ...string) Spec {
	const program = "usr/sbin/mysqld"
	// By default it would search the system's folders.
	folders := func(s *Server) []string {
		return []string{
			"--no-defaults", // must come first
			"--basedir=" + root.Path("usr"),
			"--lc-messages-dir=" + root.Path("usr/share/mysql"),
			"--character-sets-dir=" + root.Path("usr/share/mysql/charsets"),
			"--plugin-dir=" + root.Path("usr/lib/mysql/plugin"),
			"--secure-file-priv=NULL", // no folder for files
			"--datadir=" + filepath.Join(s.Dir(), "data"),
		}
	}
	return Spec{
		Name:    "mysql",
		Package: "debootstrap",
		Binary:  File{root.Loader()},
		Users:   []string{"mysql", "nobody"},
		Prepare: func(ctx context.Context, s *Server) error {
			return s.Run(ctx, root.Loader(), root.Args(program, append(folders(s),
				"--initialize-insecure")...)...)
		},
		Args: func(s *Server) []string {
			return root.Args(program, append(append(folders(s),
				"--bind-address=127.0.0.1",
				"--port="+strconv.Itoa(s.Port()),
				"--socket="+filepath.Join(s.Dir(), "socket"),
				"--pid-file="+filepath.Join(s.Dir(), "pid"),
				"--mysqlx=OFF",
				"--skip-log-bin",
				"--innodb-flush-log-at-trx-commit=2", // makes a difference only if the whole machine crashes
			), args...)...)
		},
		Ready: mariaDBReady,
	}
}
