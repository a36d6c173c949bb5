package testserver

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"testing"
)

// Redis starts a Redis without persistence: a restart loses all data. args are
// added to its command line and override the defaults, for example "--appendonly",
// "yes".
func Redis(t testing.TB, args ...string) *Server {
	t.Helper()
	return Start(t, redis(args...))
}

func redis(args ...string) Spec {
	return Spec{
		Name:    "redis",
		Package: "redis-server",
		Binary:  File{"redis-server"},
		Args: func(s *Server) []string {
			return append([]string{
				"--bind", "127.0.0.1",
				"--port", strconv.Itoa(s.Port()),
				"--dir", s.Dir(),
				"--daemonize", "no",
				"--save", "",
				"--appendonly", "no",
				"--repl-diskless-sync-delay", "0", // the first replica need not wait for others
			}, args...)
		},
		Ready: redisReady,
	}
}

// redisReady sends PING, which is refused while data is loaded.
func redisReady(ctx context.Context, s *Server) error {
	conn, err := dial(ctx, s)
	if err != nil {
		return err
	}
	defer conn.Close()
	const pong = "+PONG\r\n"
	if _, err := io.WriteString(conn, "PING\r\n"); err != nil {
		return err
	}
	answer := make([]byte, len(pong))
	if _, err := io.ReadFull(conn, answer); err != nil {
		return err
	}
	// If a password is required, the refusal also comes from a working server.
	if string(answer) != pong && string(answer) != "-NOAUTH" {
		return fmt.Errorf("PING answered %q", answer)
	}
	return nil
}
