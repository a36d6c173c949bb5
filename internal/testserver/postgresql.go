package testserver

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
)

// PostgreSQL starts a PostgreSQL with the user "postgres", no password, and the
// database "postgres". Data survives Kill and Restart, though not a power cut. args
// are added to its command line, for example "-c", "max_connections=10".
func PostgreSQL(t testing.TB, args ...string) *Server {
	t.Helper()
	return Start(t, postgreSQL(args...))
}

func postgreSQL(args ...string) Spec {
	return Spec{
		Name:    "postgresql",
		Package: "postgresql",
		Binary:  File{"postgres", "/usr/lib/postgresql/*/bin/postgres"},
		Users:   []string{"postgres", "nobody"},
		Prepare: func(ctx context.Context, s *Server) error {
			// initdb of the same version is next to the real binary, not next to a
			// link to it.
			program, err := filepath.EvalSymlinks(s.Binary())
			if err != nil {
				return err
			}
			return s.Run(ctx, filepath.Join(filepath.Dir(program), "initdb"),
				"--pgdata", filepath.Join(s.Dir(), "data"),
				"--username", "postgres",
				"--auth", "trust",
				"--encoding", "UTF8",
				"--locale", "C",
				"--no-sync")
		},
		Args: func(s *Server) []string {
			return append([]string{
				"-D", filepath.Join(s.Dir(), "data"),
				"-h", "127.0.0.1",
				"-p", strconv.Itoa(s.Port()),
				"-c", "unix_socket_directories=",
				"-c", "fsync=off", // makes a difference only if the whole machine crashes
			}, args...)
		},
		Ready: postgreSQLReady,
		// SIGTERM would wait until the last client has disconnected.
		StopSignal: syscall.SIGINT,
	}
}

// postgreSQLReady logs in: a server that starts or recovers accepts connections
// too, and answers with an error.
func postgreSQLReady(ctx context.Context, s *Server) error {
	conn, err := dial(ctx, s)
	if err != nil {
		return err
	}
	defer conn.Close()
	const version = 3 << 16
	hello := binary.BigEndian.AppendUint32(nil, version)
	hello = append(hello, "user\x00postgres\x00database\x00postgres\x00\x00"...)
	packet := binary.BigEndian.AppendUint32(nil, uint32(len(hello)+4))
	if _, err := conn.Write(append(packet, hello...)); err != nil {
		return err
	}
	r := bufio.NewReader(conn)
	for {
		var head [5]byte // the kind of message, and its length, which includes itself
		if _, err := io.ReadFull(r, head[:]); err != nil {
			return err
		}
		body := make([]byte, max(binary.BigEndian.Uint32(head[1:]), 4)-4)
		if _, err := io.ReadFull(r, body); err != nil {
			return err
		}
		switch head[0] {
		case 'E':
			return fmt.Errorf("login refused: %q", body)
		case 'Z': // ready for a query
			_, err := conn.Write([]byte{'X', 0, 0, 0, 4})
			return err
		}
	}
}
