package browser

import (
	"bytes"
	"errors"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// A process is a program that runs, the pawl command as a rule.
type process struct {
	t      *testing.T
	cmd    *exec.Cmd
	stdin  io.Closer // its command ends when it is closed
	stdout output
	stderr output
	ended  chan struct{} // closed when the process has been waited for
}

// output is what a process has written so far.
type output struct {
	mu   sync.Mutex // guards text
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// startPawl starts the command; it ends with the test.
func (s *store) startPawl(args ...string) *process {
	s.t.Helper()
	return s.start("pawl", args...)
}

func (s *store) start(name string, args ...string) *process {
	s.t.Helper()
	cmd := exec.Command(program(s.t, name), args...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + s.t.TempDir(), "PAWL_STORE=" + s.url}
	p := &process{t: s.t, cmd: cmd, ended: make(chan struct{})}
	cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = &p.stdout, &p.stderr, attributes()
	stdin, err := cmd.StdinPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	p.stdin = stdin
	started := make(chan error, 1)
	go func() { // end waits for it
		// The process would end with the thread that started it.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait()
			close(p.ended)
		}
	}()
	if err := <-started; err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { p.end() })
	return p
}

// end asks the process to end, and kills it if it does not. It returns the exit code.
func (p *process) end() int {
	p.t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.t.Error(err)
	}
	select {
	case <-p.ended:
	case <-time.After(patience):
		p.t.Errorf("%s is still there %v after SIGTERM", p.cmd, patience)
		_ = p.cmd.Process.Kill()
		<-p.ended
	}
	return p.cmd.ProcessState.ExitCode()
}

// run runs a command under a lock by pawl run. It returns when the lock is held, and
// the command ends when its standard input does.
func (s *store) run(name, reason string) *process {
	s.t.Helper()
	p := s.startPawl("run", "--ttl", "12s", "--kill-after", "1s", "--reason", reason, name, "--", "sh", "-c", "echo held; exec cat")
	p.awaitHeld()
	return p
}

// awaitHeld returns when the command under the lock runs.
func (p *process) awaitHeld() { p.t.Helper(); p.awaitOutput("held\n") }

// awaitOutput returns when the process has written exactly the given text.
func (p *process) awaitOutput(text string) {
	p.t.Helper()
	awaitGo(p.t, p.cmd.String(), func() bool {
		select {
		case <-p.ended:
			p.t.Fatalf("%s ended: %s", p.cmd, p.stderr.String())
		default:
		}
		return p.stdout.String() == text
	})
}

// runQueued lets pawl run wait for a lock, and returns the claim when it is in line.
func (s *store) runQueued(name, reason string) (p *process, claim string) {
	s.t.Helper()
	before := len(s.line(name))
	p = s.startPawl("run", "--ttl", "12s", "--kill-after", "1s", "--reason", reason, name, "--", "sh", "-c", "echo held; exec cat")
	awaitGo(s.t, "pawl run in line for "+name, func() bool {
		line := s.line(name)
		if len(line) <= before {
			return false
		}
		claim = line[len(line)-1].ID
		return true
	})
	return p, claim
}

// A server is pawl serve.
type server struct {
	*process
	base string // of its URLs, without a slash at the end
}

var listening = regexp.MustCompile(`https?://[^\s"]+`)

// serve starts pawl serve on a free port, and returns when it listens.
func (s *store) serve(args ...string) *server {
	s.t.Helper()
	p := s.startPawl(append([]string{"serve", "--listen", "127.0.0.1:0"}, args...)...)
	v := &server{process: p}
	awaitGo(s.t, "the address of pawl serve", func() bool {
		select {
		case <-p.ended:
			s.t.Fatalf("pawl serve ended: %s", p.stderr.String())
		default:
		}
		v.base = strings.TrimSuffix(listening.FindString(p.stderr.String()), "/")
		return v.base != ""
	})
	return v
}

// serveUnlock starts pawl serve so that it may break locks, which needs a password. Its
// URLs have it.
func (s *store) serveUnlock() *server {
	s.t.Helper()
	file := filepath.Join(s.t.TempDir(), "password")
	if err := os.WriteFile(file, []byte("opensesame\n"), 0o600); err != nil {
		s.t.Fatal(err)
	}
	v := s.serve("--allow-unlock", "--password-file", file)
	v.base = strings.Replace(v.base, "://", "://ana:opensesame@", 1)
	return v
}

func (v *server) lines() string             { return v.base + "/" }
func (v *server) tree() string              { return v.base + "/tree" }
func (v *server) name(name string) string   { return v.base + "/name?name=" + url.QueryEscape(name) }
func (v *server) holder(id string) string   { return v.base + "/holder?session=" + url.QueryEscape(id) }
func (v *server) filter(text string) string { return v.base + "/?q=" + url.QueryEscape(text) }
