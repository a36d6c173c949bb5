package testserver

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"testing"
)

// Etcd starts an etcd of one member, without TLS and users. Its first port is for
// clients, the second for peers. Data outlives Kill and Restart. Further arguments
// are for its command line, such as "--quota-backend-bytes=16777216".
func Etcd(t testing.TB, args ...string) *Server {
	t.Helper()
	return Start(t, etcd(args...))
}

func etcd(args ...string) Spec {
	return Spec{
		Name:    "etcd",
		Package: "etcd-server",
		Binary:  File{"etcd"},
		Ports:   2,
		Args: func(s *Server) []string {
			client := "http://" + s.Addr()
			peer := fmt.Sprintf("http://127.0.0.1:%d", s.Ports()[1])
			return append([]string{
				"--name", "one",
				"--data-dir", filepath.Join(s.Dir(), "data"),
				"--listen-client-urls", client,
				"--advertise-client-urls", client,
				"--listen-peer-urls", peer,
				"--initial-advertise-peer-urls", peer,
				"--initial-cluster", "one=" + peer,
			}, args...)
		},
		Ready: etcdReady,
	}
}

// etcdReady asks for its health, which is bad until there is a leader.
func etcdReady(ctx context.Context, s *Server) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.Addr()+"/health", nil)
	if err != nil {
		return err
	}
	// A transport of its own, so that no connection is left behind.
	transport := &http.Transport{DisableKeepAlives: true}
	defer transport.CloseIdleConnections()
	response, err := transport.RoundTrip(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	var health struct{ Health string }
	if err := json.NewDecoder(response.Body).Decode(&health); err != nil {
		return err
	}
	if health.Health != "true" {
		return fmt.Errorf("health is %q", health.Health)
	}
	return nil
}
