package testserver

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// natsServer is the version in e2e/nats/go.mod.
var natsServer = newGoServer("nats", "v2.15.2", "github.com/nats-io/nats-server/v2")

// NATS starts a nats-server with JetStream. Its first port is for clients, the second
// for monitoring. Data survives Kill and Restart. config is added to its configuration.
func NATS(t testing.TB, config ...string) *Server {
	t.Helper()
	return NATSWith(t, append([]string{"jetstream { store_dir: data }"}, config...)...)
}

// NATSWith starts a nats-server as NATS does, but with JetStream only if config has it.
func NATSWith(t testing.TB, config ...string) *Server {
	t.Helper()
	return Start(t, nats(t, "one", config))
}

// NATSMember starts a server with a name, which counts as started once it listens: in a
// cluster that its config names it only serves with a majority of the others.
func NATSMember(t testing.TB, name string, config ...string) *Server {
	t.Helper()
	spec := nats(t, name, config)
	spec.Ready = nil
	return Start(t, spec)
}

// nats is one server. Its configuration is written before the first start.
func nats(t testing.TB, name string, config []string) Spec {
	t.Helper()
	return Spec{
		Name:   "nats-" + natsServer.version,
		Binary: natsServer.binary(t),
		Ports:  2,
		Prepare: func(_ context.Context, s *Server) error {
			text := fmt.Sprintf("server_name: %s\nlisten: %q\nhttp: \"127.0.0.1:%d\"\n%s\n", name, s.Addr(), s.Ports()[1], strings.Join(config, "\n"))
			return os.WriteFile(filepath.Join(s.Dir(), "nats.conf"), []byte(text), 0o600)
		},
		Args:  func(s *Server) []string { return []string{"-c", filepath.Join(s.Dir(), "nats.conf")} },
		Ready: natsReady,
	}
}

// natsReady checks that a server serves with all its streams, and, in a cluster, knows
// a leader of JetStream and has what the leaders of its streams have.
func natsReady(ctx context.Context, s *Server) error {
	var health struct{ Status, Error string }
	if err := natsMonitor(ctx, s, "/healthz", &health); err != nil {
		return err
	}
	if health.Status != "ok" {
		return fmt.Errorf("health is %q: %s", health.Status, health.Error)
	}
	return nil
}

func natsMonitor(ctx context.Context, s *Server, path string, into any) error {
	return getJSON(ctx, fmt.Sprintf("http://127.0.0.1:%d%s", s.Ports()[1], path), into)
}
