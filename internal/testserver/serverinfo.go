package testserver

import (
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
)

// A Server is a process that a test has started with [Start].
//
// Its methods may be called from any goroutine while the test runs. If they fail,
// they fail the test with Errorf.
type Server struct {
	t      testing.TB
	spec   Spec
	binary string
	beside []string
	user   *user // nil: the user of the test
	ports  []int
	dir    string

	turn sync.Mutex // held by Stop, Kill, Restart, RestartWith, Pause and Resume, one at a time

	mu      sync.Mutex // guards process
	process *process   // the last one started; it may have ended
}

// Addr returns the address of the server's first port, as host:port.
func (s *Server) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.Port())) }

// Port returns the server's first port. A Restart keeps it.
func (s *Server) Port() int { return s.ports[0] }

// Ports returns all ports of the spec.
func (s *Server) Ports() []int { return slices.Clone(s.ports) }

// Dir returns the server's folder. A Restart keeps it.
func (s *Server) Dir() string { return s.dir }

// Binary returns the path of the server's program.
func (s *Server) Binary() string { return s.binary }

// Beside returns the path that was found for the i-th file of the spec's Beside.
func (s *Server) Beside(i int) string { return s.beside[i] }

func (s *Server) logFile() string { return filepath.Join(s.dir, "server.log") }
