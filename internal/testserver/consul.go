package testserver

import (
	"context"
	"fmt"
	"strconv"
	"testing"
)

// consulServer is the version in e2e/consul/go.mod.
var consulServer = newGoServer("consul", "v1.6.10", "github.com/hashicorp/consul")

// Consul starts an agent that is a server by itself, and returns it and its program, which
// has the command lock. Its first port is that of its HTTP API. It keeps nothing on disk.
func Consul(t testing.TB) (s *Server, program string) {
	t.Helper()
	binary := consulServer.binary(t)
	return Start(t, Spec{
		Name:   "consul-" + consulServer.version,
		Binary: binary,
		Ports:  3,
		Args: func(s *Server) []string {
			ports := s.Ports()
			return []string{
				"agent", "-dev", "-bind", "127.0.0.1", "-client", "127.0.0.1", "-http-port", strconv.Itoa(ports[0]),
				"-server-port", strconv.Itoa(ports[1]), "-serf-lan-port", strconv.Itoa(ports[2]),
				"-serf-wan-port", "-1", "-dns-port", "-1", "-grpc-port", "-1",
			}
		},
		Ready: consulReady,
	}), binary[0]
}

// consulReady checks that the server has elected itself.
func consulReady(ctx context.Context, s *Server) error {
	var leader string
	if err := getJSON(ctx, "http://"+s.Addr()+"/v1/status/leader", &leader); err != nil {
		return err
	}
	if leader == "" {
		return fmt.Errorf("there is no leader")
	}
	return nil
}
