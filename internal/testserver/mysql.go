package testserver

import (
	"context"
	"path/filepath"
	"strconv"
	"testing"
)

// MySQL starts a MySQL of Debian unstable with the user "root", no password, and no
// database of its own. Data outlives Kill and Restart, though not a power cut.
// Further arguments are for its command line, such as "--max-connections=10". See
// [Sid] for where it comes from.
func MySQL(t testing.TB, args ...string) *Server {
	t.Helper()
	return Start(t, mySQL(DebianUnstable(t, "mysql-server-core"), args...))
}

func mySQL(root DebianRoot, args ...string) Spec {
	const program = "usr/sbin/mysqld"
	// What it would look for in the system's own folders.
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
				"--innodb-flush-log-at-trx-commit=2", // only a crash of the whole machine could tell
			), args...)...)
		},
		Ready: mariaDBReady,
	}
}
