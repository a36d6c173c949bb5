package testserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
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

// awaitReady asks the server until it is ready, has ended or the limit is reached;
// in the last case it is killed.
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
		case <-time.After(20 * time.Millisecond): // nothing tells when a server is ready: ask again
		}
	}
}

func (s *Server) probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	return s.spec.Ready(ctx, s)
}

// Run runs a program to its end as the server's user and in the server's folder; its
// output goes to the server's log. It is meant for a spec's Prepare.
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
	// A file and not a pipe: nobody needs to read along, and what a killed server
	// wrote last is there.
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = attributes(s.user)
	return cmd
}

func (s *Server) openLog() (*os.File, error) {
	return os.OpenFile(s.logFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
}

// accepts is the probe of a spec that has none.
func accepts(ctx context.Context, s *Server) error {
	conn, err := dial(ctx, s)
	if err != nil {
		return err
	}
	return conn.Close()
}

// dial connects to the first port of s; the connection is of use until ctx's deadline.
func dial(ctx context.Context, s *Server) (net.Conn, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", s.Addr())
	if err != nil {
		return nil, err
	}
	if deadline, ok := ctx.Deadline(); ok {
		conn.SetDeadline(deadline)
	}
	return conn, nil
}

// tail returns the last n bytes of a file, or why there are none.
func tail(path string, n int64) string {
	f, err := os.Open(path)
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err.Error()
	}
	data, err := io.ReadAll(io.NewSectionReader(f, max(info.Size()-n, 0), n))
	if err != nil {
		return err.Error()
	}
	return string(data)
}
