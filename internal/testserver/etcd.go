package testserver

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

// Etcd starts an etcd with one member, without TLS and users. Its first port is for
// clients, the second for peers. Data survives Kill and Restart. args are added to
// its command line, for example "--quota-backend-bytes=16777216".
func Etcd(t testing.TB, args ...string) *Server {
	t.Helper()
	return Start(t, etcd(args...))
}

// newerEtcd is the version in e2e/etcd/go.mod.
var newerEtcd = newGoServer("etcd", "v3.7.3", "go.etcd.io/etcd/server/v3")

// withoutFsync makes etcd not wait for its disk. Data survives Kill and Restart
// anyway, though not a power cut. A disk that stalls would cause elections.
const withoutFsync = "--unsafe-no-fsync"

// NewEtcd is like [Etcd], with a newer version than Debian's and without waiting
// for the disk, unless "--unsafe-no-fsync=false" is given.
func NewEtcd(t testing.TB, args ...string) *Server {
	t.Helper()
	return Start(t, newEtcd(t, args...))
}

func newEtcd(t testing.TB, args ...string) Spec {
	t.Helper()
	spec := etcd(append([]string{withoutFsync}, args...)...)
	spec.Name, spec.Binary = "etcd-"+newerEtcd.version, newerEtcd.binary(t)
	return spec
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
	var health struct{ Health string }
	if err := getJSON(ctx, etcdPages(s)+"/health", &health); err != nil {
		return err
	}
	if health.Health != "true" {
		return fmt.Errorf("health is %q", health.Health)
	}
	return nil
}

// etcdPages returns where a member has its pages: at its clients' address unless its
// command line names another.
func etcdPages(s *Server) string {
	for _, arg := range s.spec.Args(s) {
		if url, ok := strings.CutPrefix(arg, "--listen-client-http-urls="); ok {
			return url
		}
	}
	return "http://" + s.Addr()
}
