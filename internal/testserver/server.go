// Package testserver starts real servers for tests, on free ports of 127.0.0.1 and
// in temporary folders, and ends them with the test.
//
// It never touches a server that it did not start: it signals only the process that
// it started, through the handle from its start, and none of its children. On Linux
// a server dies with the test binary, however that ends; elsewhere a test binary
// that is killed leaves its servers behind.
//
// If a server is not installed its test is skipped, with the name of the Debian
// package; with CI=true in the environment the test fails instead.
package testserver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"
)

// Start starts a server and returns when it is ready. At the end of the test the
// server is stopped and its folder removed; if the test has failed, the end of the
// server's log is logged first. If another program takes the chosen port before the
// server does, Start tries other ports.
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

// skipOrFail ends a test whose server is missing.
func skipOrFail(t testing.TB, err error) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf("%v; nothing may be missing with CI=true", err)
	}
	t.Skip(err)
}

// PID returns the id of the last started process, which may have ended; 0 before
// the first start.
func (s *Server) PID() int {
	if p := s.current(); p != nil {
		return p.pid()
	}
	return 0
}

// Exited returns a channel that is closed when the last started process has ended,
// for any reason.
func (s *Server) Exited() <-chan struct{} { return s.current().exited }

// Stop asks the server to end and waits; after the spec's StopLimit it kills the
// server. It resumes a paused server first. It may be called twice, and on a server
// that has ended by itself.
func (s *Server) Stop() {
	s.turn.Lock()
	defer s.turn.Unlock()
	s.stop()
}

// Kill kills the server with SIGKILL and waits. Children of the server, as
// PostgreSQL has, may live a moment longer.
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
	s.restart()
}

// RestartWith is Restart with another command line, which change makes of the present one.
// Later ones have it too.
func (s *Server) RestartWith(change func(args []string) []string) {
	s.turn.Lock()
	defer s.turn.Unlock()
	before := s.spec.Args
	s.spec.Args = func(s *Server) []string { return change(before(s)) }
	s.restart()
}

func (s *Server) restart() {
	s.stop()
	// Remains of a killed server may block the restart for a moment: children that
	// hold its memory, or a client's connection from the same port.
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
		time.Sleep(50 * time.Millisecond) // poll: there is no notification
	}
}

// Pause stops the server with SIGSTOP: its connections stay open and nothing
// answers. On Linux all its threads have stopped when Pause returns. Children, such
// as the backends of PostgreSQL, continue.
func (s *Server) Pause() {
	s.turn.Lock()
	defer s.turn.Unlock()
	if err := s.current().pause(); err != nil {
		s.t.Errorf("%s: pause: %v", s.spec.Name, err)
	}
}

// Resume continues a paused server.
func (s *Server) Resume() {
	s.turn.Lock()
	defer s.turn.Unlock()
	if err := s.current().resume(); err != nil {
		s.t.Errorf("%s: resume: %v", s.spec.Name, err)
	}
}

// begin allocates ports and folder and starts the server for the first time.
// Everything is released at the end of the test, even after an error.
func (s *Server) begin() error {
	var err error
	if s.user, err = pickUser(s.spec.Users); err != nil {
		return err
	}
	for range s.spec.Ports {
		s.ports = append(s.ports, FreePort(s.t))
	}
	// Not t.TempDir: other users cannot read its parent, and its name is too long
	// for a socket path.
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

// portTaken reports whether the server has ended while one of its ports is in use.
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
	// Children of a killed server may still write: remove their files in another
	// round.
	err := os.RemoveAll(s.dir)
	for begun := time.Now(); err != nil && time.Since(begun) < 5*time.Second; {
		time.Sleep(20 * time.Millisecond)
		err = os.RemoveAll(s.dir)
	}
	if err != nil {
		s.t.Errorf("%s: %v", s.spec.Name, err)
	}
}
