// Package testserver starts real servers for tests, on free ports of 127.0.0.1 and
// in temporary folders, and ends them with the test.
//
// It never touches a server it did not start: signals go to the one process that
// was started, through the handle from its start, and to none of its children.
// On Linux a server dies with the test binary, whatever ends that; elsewhere a
// test binary that is killed leaves its servers behind.
//
// A test whose server is not installed is skipped, with the name of the Debian
// package that brings it; with CI=true in the environment it fails instead.
package testserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"
)

// A Server is a process that a test has started. [Start] makes it.
//
// Its methods may be called from any goroutine while the test runs. A failure of
// theirs fails the test with Errorf.
type Server struct {
	t      testing.TB
	spec   Spec
	binary string
	beside []string
	user   *user // nil: that of the test
	ports  []int
	dir    string

	turn sync.Mutex // held by Stop, Kill, Restart, Pause and Resume, one at a time

	mu      sync.Mutex // guards process
	process *process   // the last one started; it may have ended
}

// Start starts a server and returns when it is ready. The server is stopped and its
// folder removed when the test ends; if the test has failed, the end of the
// server's log is logged first. Where another program takes the chosen port before
// the server does, other ports are tried.
func Start(t testing.TB, spec Spec) *Server {
	t.Helper()
	spec = spec.withDefaults()
	binary, beside, err := spec.locate()
	if err != nil {
		skipOrFail(t, err)
	}
	const tries = 3
	for try := 1; ; try++ {
		s := &Server{t: t, spec: spec, binary: binary, beside: beside}
		err := s.begin()
		if err == nil {
			return s
		}
		if try == tries || !s.portTaken() {
			t.Fatalf("%s: %v", spec.Name, err)
		}
		t.Logf("%s: %v; a port was taken by another program, trying others", spec.Name, err)
	}
}

// absent ends a test that something is missing for.
func skipOrFail(t testing.TB, err error) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf("%v; nothing may be missing with CI=true", err)
	}
	t.Skip(err)
}

// Addr returns the address of the server's first port, as host:port.
func (s *Server) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.Port())) }

// Port returns the server's first port. It stays the same over a Restart.
func (s *Server) Port() int { return s.ports[0] }

// Ports returns all ports the spec asked for.
func (s *Server) Ports() []int { return slices.Clone(s.ports) }

// Dir returns the server's folder. It stays the same over a Restart.
func (s *Server) Dir() string { return s.dir }

// Binary returns the path of the server's program.
func (s *Server) Binary() string { return s.binary }

// Beside returns the path found for the i-th file of the spec's Beside.
func (s *Server) Beside(i int) string { return s.beside[i] }

// PID returns the id of the process last started, which may have ended; 0 before
// the first start.
func (s *Server) PID() int {
	if p := s.current(); p != nil {
		return p.pid()
	}
	return 0
}

// Exited returns a channel that closes when the process last started has ended,
// for whatever reason.
func (s *Server) Exited() <-chan struct{} { return s.current().exited }

// Stop asks the server to end and returns when it has; one that takes longer than
// the spec's StopLimit is killed. A paused server is resumed for it. It may be
// called twice, and on a server that has ended by itself.
func (s *Server) Stop() {
	s.turn.Lock()
	defer s.turn.Unlock()
	s.stop()
}

// Kill ends the server with SIGKILL and returns when it has ended. Children that
// the server has, as PostgreSQL does, may live a moment longer.
func (s *Server) Kill() {
	s.turn.Lock()
	defer s.turn.Unlock()
	s.kill()
}

// Restart stops the server if it runs, starts it again on the same ports and in the
// same folder, and returns when it is ready.
func (s *Server) Restart() {
	s.turn.Lock()
	defer s.turn.Unlock()
	s.stop()
	// What a killed server leaves behind may be in the way for a moment: children
	// that hold its memory, or a client's connection from the very port.
	const settle = 5 * time.Second
	for begun := time.Now(); ; {
		err := s.launch()
		if err == nil {
			return
		}
		if !errors.Is(err, errExited) || time.Since(begun) > settle {
			s.t.Errorf("%s: restart: %v", s.spec.Name, err)
			return
		}
		time.Sleep(50 * time.Millisecond) // nothing tells when they are gone
	}
}

// Pause stops the server with SIGSTOP: its connections stay open and nothing
// answers. On Linux all its threads stand still when Pause returns. Children, such
// as the backends of PostgreSQL, run on.
func (s *Server) Pause() {
	s.turn.Lock()
	defer s.turn.Unlock()
	if err := s.current().pause(); err != nil {
		s.t.Errorf("%s: pause: %v", s.spec.Name, err)
	}
}

// Resume lets a paused server go on.
func (s *Server) Resume() {
	s.turn.Lock()
	defer s.turn.Unlock()
	if err := s.current().resume(); err != nil {
		s.t.Errorf("%s: resume: %v", s.spec.Name, err)
	}
}

// begin gives the server its ports and folder and starts it for the first time. All
// that it took is given back when the test ends, also after an error.
func (s *Server) begin() error {
	var err error
	if s.user, err = pickUser(s.spec.Users); err != nil {
		return err
	}
	for range s.spec.Ports {
		s.ports = append(s.ports, FreePort(s.t))
	}
	// Not t.TempDir: its parent is closed to other users, and its name too long for
	// the path of a socket.
	if s.dir, err = os.MkdirTemp("", "pawl-"+s.spec.Name+"-"); err != nil {
		return err
	}
	s.t.Cleanup(s.close)
	if err := s.user.chown(s.dir); err != nil {
		return err
	}
	if s.spec.Prepare != nil {
		ctx, cancel := context.WithTimeout(context.Background(), s.spec.StartLimit)
		defer cancel()
		if err := s.spec.Prepare(ctx, s); err != nil {
			return fmt.Errorf("prepare: %w", err)
		}
	}
	return s.launch()
}

// robbed reports whether the server has ended and one of its ports is in use
// nevertheless.
func (s *Server) portTaken() bool {
	p := s.current()
	if p == nil || !p.ended() {
		return false
	}
	return slices.ContainsFunc(s.ports, func(port int) bool { return !canListen(port) })
}

func (s *Server) current() *process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.process
}

func (s *Server) stop() {
	p := s.current()
	if p == nil || p.ended() {
		return
	}
	if err := p.stop(s.spec.StopSignal, s.spec.StopLimit); err != nil {
		s.t.Logf("%s: stop: %v", s.spec.Name, err)
	}
}

func (s *Server) kill() {
	p := s.current()
	if p == nil {
		return
	}
	if err := p.kill(); err != nil {
		s.t.Errorf("%s: kill: %v", s.spec.Name, err)
	}
}

// close ends the server with its test.
func (s *Server) close() {
	s.Stop()
	if s.t.Failed() {
		s.t.Logf("%s on %s, end of its log:\n%s", s.spec.Name, s.Addr(), tail(s.logFile(), 8<<10))
	}
	// Children of a killed server may still write: what they add is removed in
	// another round.
	err := os.RemoveAll(s.dir)
	for begun := time.Now(); err != nil && time.Since(begun) < 5*time.Second; {
		time.Sleep(20 * time.Millisecond)
		err = os.RemoveAll(s.dir)
	}
	if err != nil {
		s.t.Errorf("%s: %v", s.spec.Name, err)
	}
}

func (s *Server) logFile() string { return filepath.Join(s.dir, "server.log") }
