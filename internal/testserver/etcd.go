package testserver

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"testing"
)

// Etcd starts an etcd with one member, without TLS and users. Its first port is for
// clients, the second for peers. Data survives Kill and Restart. args are added to
// its command line, for example "--quota-backend-bytes=16777216".
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

// etcdReady checks the health, which is bad until there is a leader.
func etcdReady(ctx context.Context, s *Server) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.Addr()+"/health", nil)
	if err != nil {
		return err
	}
	// A separate transport, so that no connection stays open.
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
