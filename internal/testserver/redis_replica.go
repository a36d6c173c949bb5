package testserver

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// RedisReplica starts a Redis, like [Redis], that replicates from master, and
// returns when it has a full copy. The address may be that of a proxy, so that a
// test can cut the connection. A restart keeps its master, even one that CONFIG
// REWRITE has changed, as a sentinel does.
func RedisReplica(t testing.TB, master string, args ...string) *Server {
	t.Helper()
	s := Start(t, replica(master, args...))
	await(t, "replica of "+master, func(ctx context.Context) error {
		return expectInfo(ctx, s.Addr(), "replication", "master_link_status:up")
	})
	return s
}

func replica(master string, args ...string) Spec {
	spec := redis(args...)
	settings := spec.Args
	// In a file, unlike the other settings: on the command line it would undo a
	// sentinel's change at a restart.
	file := func(s *Server) string { return filepath.Join(s.Dir(), "redis.conf") }
	spec.Prepare = func(_ context.Context, s *Server) error {
		text := ""
		if master != "" {
			host, port, err := net.SplitHostPort(master)
			if err != nil {
				return err
			}
			text = fmt.Sprintf("replicaof %s %s\n", host, port)
		}
		return os.WriteFile(file(s), []byte(text), 0o600)
	}
	spec.Args = func(s *Server) []string { return append([]string{file(s)}, settings(s)...) }
	return spec
}

// expectInfo compares lines of the INFO reply.
func expectInfo(ctx context.Context, addr, section string, lines ...string) error {
	answer, err := ask(ctx, addr, "INFO", section)
	if err != nil {
		return err
	}
	text, _ := answer.(string)
	for _, want := range lines {
		if !strings.Contains(text, want+"\r\n") {
			return fmt.Errorf("INFO %s of %s lacks %q: %s", section, addr, want, text)
		}
	}
	return nil
}

// expectReplicas checks that n replicas have all of the master's data. A replica
// that is still loading is connected too.
func expectReplicas(ctx context.Context, master string, n int) error {
	answer, err := ask(ctx, master, "INFO", "replication")
	if err != nil {
		return err
	}
	text, _ := answer.(string)
	if !strings.Contains(text, "role:master\r\n") || strings.Count(text, "state=online") != n {
		return fmt.Errorf("%s has not %d replicas: %s", master, n, text)
	}
	return nil
}
