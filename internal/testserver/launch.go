package testserver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"
)

// errExited says that a server ended before it was ready.
var errExited = errors.New("ended before it was ready")

// launch starts the process and waits until it is ready.
func (s *Server) launch() error {
	var args []string
	if s.spec.Args != nil {
		args = s.spec.Args(s)
	}
	log, err := s.openLog()
	if err != nil {
		return err
	}
	defer log.Close() // the process has its own handle
	p, err := startProcess(s.command(log, s.binary, args...))
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.process = p
	s.mu.Unlock()
	return s.awaitReady(p)
}

// awaitReady polls the server until it is ready, has ended, or the limit is
// reached; then it kills the server.
func (s *Server) awaitReady(p *process) error {
	ctx, cancel := context.WithTimeout(context.Background(), s.spec.StartLimit)
	defer cancel()
	for {
		err := s.probe(ctx)
		if err == nil && !p.listens(s.Port()) {
			err = fmt.Errorf("another program answers on port %d", s.Port())
		}
		if err == nil && !p.ended() {
			return nil
		}
		select {
		case <-p.exited:
			return fmt.Errorf("%w: %v", errExited, p.state())
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("not ready after %v: %w", s.spec.StartLimit, err), p.kill())
		case <-time.After(20 * time.Millisecond): // poll: there is no notification
		}
	}
}

func (s *Server) probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	return s.spec.Ready(ctx, s)
}

// Run runs a program as the server's user in the server's folder. Its output goes
// to the server's log. It is meant for a spec's Prepare.
func (s *Server) Run(ctx context.Context, program string, args ...string) error {
	log, err := s.openLog()
	if err != nil {
		return err
	}
	defer log.Close()
	p, err := startProcess(s.command(log, program, args...))
	if err != nil {
		return err
	}
	select {
	case <-p.exited:
		if p.err != nil {
			return fmt.Errorf("%s: %w", program, p.err)
		}
		return nil
	case <-ctx.Done():
		return errors.Join(fmt.Errorf("%s: %w", program, ctx.Err()), p.kill())
	}
}

func (s *Server) command(log *os.File, program string, args ...string) *exec.Cmd {
	cmd := exec.Command(program, args...)
	cmd.Dir = s.dir
	cmd.Env = append([]string{
		"PATH=" + os.Getenv("PATH"),
		"HOME=" + s.dir,
		"TMPDIR=" + s.dir,
		"LANG=C",
	}, s.spec.Env...)
	// A file instead of a pipe: it needs no reader, and keeps the last output of a
	// killed server.
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = attributes(s.user)
	return cmd
}

func (s *Server) openLog() (*os.File, error) {
	return os.OpenFile(s.logFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
}
